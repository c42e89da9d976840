"""The official SDKs and our adapters make the same requests of Vertex AI and of Azure, story by story."""

from __future__ import annotations

import pytest
import trio

from agentrail.adapters.models.clouds.accounts import Accounts
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.errors import ModelError
from agentrail.models import PROVIDERS
from tests.adapters.models.beside import Difference, differences, row_of
from tests.adapters.models.clouds.official_clouds import CLOUDS, KEY, TOKEN, Cloud
from tests.adapters.models.official import HEADERS, WRITERS
from tests.adapters.models.server import serving
from tests.adapters.models.stories import STORIES, Story
from tests.adapters.models.test_beside_sdks import EXTRA, REFUSED, SDKS, SEALS, stories_of
from tests.kit import freeze_object

SECRETS = {"KEY": KEY, "TOKEN": TOKEN, "GATE": HEADERS["x-gate"]}


async def ours(cloud: Cloud, story: Story, url: str, http: Http) -> None:
    options = {name: value for name, value in story.options.items() if name != "extra"}
    if "extra" in story.options:
        options["extra"] = EXTRA[cloud.maker]
    options |= {"base_url": url, **cloud.options}
    request = story.request(cloud.model, SEALS[cloud.maker]).but(options=freeze_object(options))
    model = RemoteModel(cloud.model, PROVIDERS[cloud.provider], http, SECRETS.get, Accounts())
    with pytest.raises(ModelError, match="not today"):
        await model.stream(request, lambda _: None)


HEADERS_OF_V1 = frozenset({"header authorization", "header api-key"})
"""What may differ only from the class `OpenAI`: that for Azure sends what ours does."""


def cloud_row(cloud: Cloud, place: str, story: str) -> Difference | None:
    """Return the row for the cloud, or the one that the maker's own API has too."""
    if place in HEADERS_OF_V1 and "api_version" in cloud.options:
        return None
    return row_of(cloud.provider, place, story) or row_of(cloud.maker, place, story)


@pytest.mark.long
@pytest.mark.parametrize("name", CLOUDS)
async def test_both_ask_a_cloud_the_same_but_for_what_the_table_says(name: str) -> None:
    cloud, http = CLOUDS[name], Http()
    unexplained: list[str] = []
    with trio.fail_after(60):
        async with serving(REFUSED) as server:
            with cloud.client(server.url) as ask:
                for story in stories_of(cloud.maker):
                    before = len(server.asked)
                    try:
                        await trio.to_thread.run_sync(ask, WRITERS[cloud.maker](STORIES[story]))
                    except Exception as error:
                        if type(error).__module__.partition(".")[0] not in SDKS:
                            raise
                    await ours(cloud, STORIES[story], server.url, http)
                    theirs, own = server.asked[before:]
                    unexplained += [
                        f"{story}: {place}: {what[:300]}"
                        for place, what in differences(cloud.maker, theirs, own)
                        if cloud_row(cloud, place, story) is None
                    ]
        await http.close()
    assert not unexplained, "\n".join(unexplained)
