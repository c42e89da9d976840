"""Calls each route of a host by the Python client that `openapi-python-client` makes of its document.

`test_generated_clients.py` checks the types of this program, and runs it with the address of the host and a key.
"""

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

from agentrail_client import AuthenticatedClient, Client
from agentrail_client.api.default import (
    abort,
    ag_ui_follow,
    ag_ui_run,
    agents,
    approvals,
    approve,
    ask,
    cancel_task,
    candidates,
    change,
    change_plugins,
    change_tools,
    chat,
    cited,
    commands,
    compact,
    console_file,
    delete_document,
    delete_session,
    disallow,
    document,
    documents,
    erase_store,
    evaluation,
    evaluations,
    events,
    figures,
    file,
    file_piece,
    files,
    fork,
    health,
    identity,
    label,
    list_sessions,
    message_task,
    messages,
    metrics,
    offered,
    open_session,
    openapi,
    page,
    preview_rewind,
    prompt,
    put_document,
    queued,
    ready,
    records,
    reject,
    reply,
    respond,
    result,
    resume,
    rewind,
    rows,
    search,
    seen,
    show_session,
    socket,
    state_at,
    steer,
    stop,
    stores,
    stream,
    suspend,
    switch_model,
    task_result,
    tasks,
    timeline,
    tree,
    trouble,
    upload,
    wait_tasks,
    what_if,
    why,
    withdraw,
)
from agentrail_client.models import (
    AbortBody,
    ApproveBody,
    AskBody,
    AttachPluginBody,
    ChatBody,
    CompactBody,
    DetachPluginBody,
    DisallowBody,
    ForkBody,
    LabelBody,
    MessageTaskBody,
    ModelBody,
    Ok,
    OpenBody,
    Problem,
    PromptBody,
    RejectBody,
    RespondBody,
    ResultBody,
    RewindBody,
    RunBody,
    RunMessage,
    SteerBody,
    StopBody,
    Text,
    ToolsBody,
    ToolsBodyDo,
    WithdrawBody,
)
from agentrail_client.types import File, Response

T = TypeVar("T")


def good(response: Response[Problem | T]) -> T:
    """Return what the host gave; fail if that was a problem."""
    assert response.parsed is not None, response
    assert not isinstance(response.parsed, Problem), response.parsed
    return response.parsed


def done(response: Response[object]) -> None:
    """Fail if the host did not answer that a command was carried out."""
    assert response.status_code == 204, response


def about_the_host(client: AuthenticatedClient, anyone: Client) -> None:
    assert good(health.sync_detailed(client=anyone)).status == "ok"
    assert ready.sync_detailed(client=anyone).status_code == 200
    assert "<html" in str(page.sync_detailed(client=anyone).parsed)
    assert console_file.sync_detailed("none.js", client=anyone).status_code == 404  # the console has no such file
    assert "/v1/chat" in str(openapi.sync_detailed(client=anyone).parsed)
    assert "agentrail_sessions" in str(metrics.sync_detailed(client=client).parsed)
    identity_ = good(identity.sync_detailed(client=client))
    assert (identity_.tenant, identity_.user, identity_.scopes) == (
        "evil",
        "ann",
        ["admin", "decide", "observe", "talk"],
    )
    assert good(agents.sync_detailed(client=client)).items == ["desk"]
    good(commands.sync_detailed(client=client))
    good(tree.sync_detailed(client=client))
    assert good(rows.sync_detailed(client=client, limit=5)).matching == 0
    assert good(trouble.sync_detailed(client=client)).items == []
    assert good(figures.sync_detailed(client=client)).series == []
    assert evaluations.sync_detailed(client=client).status_code == 403  # for the operator of the host
    assert evaluation.sync_detailed(client=client, file="main").status_code == 403
    assert good(candidates.sync_detailed(client=client)).items == []
    assert socket.sync_detailed(client=client).status_code == 426  # a WebSocket needs a client of its own


def talking(client: AuthenticatedClient) -> None:
    assert good(open_session.sync_detailed(client=client, body=OpenBody(session="trip", title="A trip")))
    good(upload.sync_detailed("trip", client=client, body=File(io.BytesIO(b"milk")), name="list.txt"))
    assert good(files.sync_detailed("trip", client=client)).items == []
    assert file.sync_detailed("trip", client=client, path="list.txt").status_code == 404  # no tool wrote it
    assert file_piece.sync_detailed("trip", client=client, path="list.txt").status_code == 404
    first = good(chat.sync_detailed(client=client, body=ChatBody(message="hello", session="trip")))
    assert (first.text, first.held) == ("done", [])
    streamed = stream.sync_detailed(client=client, body=ChatBody(message="hello", session="trip"))
    assert "event: reply" in str(streamed.parsed)
    run_message = RunMessage(role="user", id="first", content="hello")
    run = ag_ui_run.sync_detailed(client=client, body=RunBody(thread_id="trip", run_id="run", messages=[run_message]))
    assert "RUN_FINISHED" in str(run.parsed)
    assert "RUN_FINISHED" in str(ag_ui_follow.sync_detailed("trip", client=client).parsed)
    assert good(ask.sync_detailed("trip", client=client, body=AskBody(message="hello"))).text == "done"
    assert len(good(messages.sync_detailed("trip", client=client, limit=2)).items) == 2
    good(show_session.sync_detailed("trip", client=client))
    good(offered.sync_detailed("trip", client=client))
    done(label.sync_detailed("trip", client=client, body=LabelBody(add=["red"])))
    assert [item.title for item in good(list_sessions.sync_detailed(client=client, label="red")).items] == ["A trip"]
    item = good(records.sync_detailed("trip", client=client, limit=2))
    assert ([record.number for record in item.records], item.more) == ([1, 2], True)
    assert good(why.sync_detailed("trip", client=client, about="1")).entries
    assert good(what_if.sync_detailed("trip", client=client, options='{"BudgetGuard": {"max_rounds": 1}}')).records
    assert good(state_at.sync_detailed("trip", client=client, record=1)).record == 1
    assert good(timeline.sync_detailed("trip", client=client)).spans
    assert good(seen.sync_detailed("trip", client=client, round_=1)).sent.number == 1


def steering(client: AuthenticatedClient) -> None:
    good(prompt.sync_detailed("trip", client=client, body=PromptBody(message="wait"), idempotency_key="k1"))
    second = good(prompt.sync_detailed("trip", client=client, body=PromptBody(message="hello")))
    assert [item.ref for item in good(queued.sync_detailed("trip", client=client)).items] == [second.ref]
    done(withdraw.sync_detailed("trip", client=client, body=WithdrawBody(ref=second.ref)))
    done(disallow.sync_detailed("trip", client=client, body=DisallowBody(tool="pay", command_family="pay")))
    good(steer.sync_detailed("trip", client=client, body=SteerBody(text="hurry")))
    done(abort.sync_detailed("trip", client=client, body=AbortBody(reason="enough")))


def deciding(client: AuthenticatedClient) -> None:
    for attempt in range(2):
        held = good(chat.sync_detailed(client=client, body=ChatBody(message="pay", session="trip"))).held
        assert [item.tool for item in held] == ["pay"]
        assert [item.id for item in good(approvals.sync_detailed(client=client)).items] == [held[0].id]
        change_view = good(change.sync_detailed("trip", client=client, approval=held[0].id))
        assert (change_view.path, change_view.unseen) == (None, None)  # the tool writes no file
        if attempt:
            done(approve.sync_detailed("trip", client=client, body=ApproveBody(approval=held[0].id)))
        else:
            done(reject.sync_detailed("trip", client=client, body=RejectBody(approval=held[0].id, auto_resume=True)))
    (question,) = good(chat.sync_detailed(client=client, body=ChatBody(message="question", session="trip"))).held
    done(respond.sync_detailed("trip", client=client, body=RespondBody(ref=question.id, answer="that one")))
    assert good(reply.sync_detailed("trip", client=client)).text == "done"
    (awaited,) = good(chat.sync_detailed(client=client, body=ChatBody(message="build", session="trip"))).held
    built = Ok(field_="Ok", content=[Text(field_="Text", text="built")])
    done(result.sync_detailed("trip", client=client, body=ResultBody(call=awaited.id, result=built)))


def changing(client: AuthenticatedClient) -> None:
    done(suspend.sync_detailed("trip", client=client))
    done(resume.sync_detailed("trip", client=client))
    done(switch_model.sync_detailed("trip", client=client, body=ModelBody(model="demo")))
    done(change_tools.sync_detailed("trip", client=client, body=ToolsBody(do=ToolsBodyDo.ATTACH, tools=["look"])))
    for body in (AttachPluginBody("attach", "EventLogger"), DetachPluginBody("detach", "EventLogger")):
        done(change_plugins.sync_detailed("trip", client=client, body=body))
    done(compact.sync_detailed("trip", client=client, body=CompactBody(reason="long")))


def delegating(client: AuthenticatedClient) -> None:
    good(open_session.sync_detailed(client=client, body=OpenBody(session="boss")))
    good(prompt.sync_detailed("boss", client=client, body=PromptBody(message="delegate")))
    while not (items := good(tasks.sync_detailed("boss", client=client)).items):
        pass
    child = items[0].child
    done(message_task.sync_detailed("boss", client=client, body=MessageTaskBody(child=child, text="hurry")))
    good(wait_tasks.sync_detailed("boss", client=client, children=child, milliseconds=1))
    done(cancel_task.sync_detailed("boss", client=client, child=child))
    good(task_result.sync_detailed("boss", client=client, child=child))


def knowing(client: AuthenticatedClient) -> None:
    content = File(io.BytesIO(b"# Start\n\nMilk is white."))
    added = good(put_document.sync_detailed("handbook", "guide/start.md", client=client, body=content))
    assert [item.store for item in good(stores.sync_detailed(client=client)).items] == ["handbook"]
    assert good(documents.sync_detailed("handbook", client=client, limit=5)).items == [added]
    best, *_ = good(search.sync_detailed("handbook", client=client, query="white milk")).items
    part = document.sync_detailed("handbook", "guide/start.md", client=client, start=best.start, end=best.end)
    assert good(part).text == best.text
    assert good(cited.sync_detailed("trip", client=client, store="handbook")).items == []
    done(delete_document.sync_detailed("handbook", "guide/start.md", client=client))
    done(erase_store.sync_detailed("handbook", client=client))


def ending(client: AuthenticatedClient, listener: AuthenticatedClient, headers_came: Event) -> None:
    copy = good(fork.sync_detailed("trip", client=client, body=ForkBody(session="copy"))).session
    assert good(preview_rewind.sync_detailed(copy, client=client, since=0)).files == []
    assert good(rewind.sync_detailed(copy, client=client, body=RewindBody(since=0))).files == []
    with ThreadPoolExecutor() as pool:
        stream_of_events = pool.submit(events.sync_detailed, copy, client=listener, since="0")
        assert headers_came.wait(60)
        done(stop.sync_detailed(copy, client=client, body=StopBody()))
        assert "event: SessionEnd" in str(stream_of_events.result().parsed)  # the stream ends with its session
    assert good(delete_session.sync_detailed(copy, client=client)).session == copy


def main(url: str, key: str) -> None:
    headers_came = Event()
    hooks = {"event_hooks": {"response": [lambda _: headers_came.set()]}}
    with (
        AuthenticatedClient(base_url=url, token=key) as client,
        AuthenticatedClient(base_url=url, token=key, httpx_args=hooks) as listener,
        Client(base_url=url) as anyone,
    ):
        about_the_host(client, anyone)
        talking(client)
        steering(client)
        deciding(client)
        changing(client)
        delegating(client)
        knowing(client)
        ending(client, listener, headers_came)


if __name__ == "__main__":
    main(*sys.argv[1:])
