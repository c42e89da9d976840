"""Index passages and search them by ENGINE; prints seconds of CPU for the index, then CPU and clock of a search.

`python of_search.py ENGINE FOLDER ROUNDS`: FOLDER has `passages.json` and `queries.json`, lists of texts, and for what
means alike `passages.npy` and `queries.npy`, a vector for each. A search returns eight. The index is on the disk, as
ours is, except those of `rank_bm25` and `numpy`, which know memory alone.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ENGINE, FOLDER, ROUNDS = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
BEST = 8


def by_tantivy(passages, _, folder):
    """Return a function that searches with Tantivy."""
    import tantivy  # noqa: PLC0415 - each is imported alone

    schema = tantivy.SchemaBuilder().add_integer_field("id", stored=True).add_text_field("text").build()
    index = tantivy.Index(schema, path=folder)
    writer = index.writer()
    for number, passage in enumerate(passages):
        writer.add_document(tantivy.Document(id=number, text=passage))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(query, _):
        parsed, _ = index.parse_query_lenient(query, ["text"])
        return [searcher.doc(address)["id"][0] for _, address in searcher.search(parsed, BEST).hits]

    return search


def by_rank_bm25(passages, _, __):
    """Return a function that searches with rank_bm25."""
    from rank_bm25 import BM25Okapi  # noqa: PLC0415 - each is imported alone

    index = BM25Okapi([passage.lower().split() for passage in passages])
    return lambda query, _: index.get_top_n(query.lower().split(), passages, BEST)


def by_chroma(passages, vectors, folder):
    """Return a function that searches with Chroma."""
    import chromadb  # noqa: PLC0415 - each is imported alone

    client = chromadb.PersistentClient(folder, chromadb.Settings(anonymized_telemetry=False))
    rows = client.create_collection("passages", metadata={"hnsw:space": "cosine"}, embedding_function=None)
    for start in range(0, len(passages), 1_000):
        chosen = range(start, min(start + 1_000, len(passages)))
        rows.add([*map(str, chosen)], [vectors[each] for each in chosen], documents=[passages[each] for each in chosen])
    return lambda _, vector: rows.query([vector], n_results=BEST)["ids"][0]


def by_lance(passages, vectors, folder):
    """Return a function that searches with LanceDB, which compares all vectors, as no index of them is made."""
    import lancedb  # noqa: PLC0415 - each is imported alone

    rows = [{"text": passage, "vector": vector} for passage, vector in zip(passages, vectors, strict=True)]
    table = lancedb.connect(folder).create_table("passages", rows)
    return lambda _, vector: table.search(vector).distance_type("cosine").limit(BEST).to_list()


def by_numpy(passages, vectors, _):
    """Return a function that searches with numpy, as a program does that keeps all in memory."""

    def search(_, vector):
        cosines = vectors @ vector
        best = np.argpartition(-cosines, BEST)[:BEST]
        return [passages[each] for each in best[np.argsort(-cosines[best])]]

    return search


ENGINES = {
    "tantivy": by_tantivy,
    "rank_bm25": by_rank_bm25,
    "chroma": by_chroma,
    "lance": by_lance,
    "numpy": by_numpy,
}


def main():
    """Index and search."""
    passages, queries = (json.loads((FOLDER / f"{name}.json").read_text()) for name in ("passages", "queries"))
    vectors, asked = (np.load(FOLDER / f"{name}.npy") for name in ("passages", "queries"))
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        search = ENGINES[ENGINE](passages, vectors, folder)
        indexed = time.process_time() - began
        cpu, clock = [], []
        for number in range(ROUNDS + 1):
            for query, vector in zip(queries, asked, strict=True):
                on_cpu, on_clock = time.process_time(), time.perf_counter()
                assert len(search(query, vector)) == BEST
                if number:  # the first of each query warms up
                    cpu.append(1_000 * (time.process_time() - on_cpu))
                    clock.append(1_000 * (time.perf_counter() - on_clock))
    print(indexed, statistics.median(cpu), statistics.median(clock))


main()
