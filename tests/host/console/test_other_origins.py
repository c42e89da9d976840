"""A page of another site can neither read nor act, nor put the console into a frame."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.host.browser.browsing import SECONDS, static_site
from tests.host.console.visiting import Visitor, needs_browser

pytestmark = [needs_browser, pytest.mark.long]

TRY: Final = """async ([host, token]) => {
  const told = {}
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ session: 'planted' })
  const ways = {
    read: () => fetch(`${host}/v1/sessions`, { headers }),
    act: () => fetch(`${host}/v1/sessions`, { method: 'POST', headers, body }),
    script: () => import(`${host}/openapi.json`),
    page: () => fetch(`${host}/`).then(found => found.text()),
  }
  for (const [name, way] of Object.entries(ways)) told[name] = await way().then(() => 'done', () => 'refused')
  told.socket = await new Promise(resolve => {
    const socket = new WebSocket(`${host.replace('http', 'ws')}/v1/ws`, 'agentrail.v1')
    socket.onopen = () => resolve('done')
    socket.onerror = () => resolve('refused')
  })
  const form = document.createElement('form')
  Object.assign(form, { method: 'post', action: `${host}/v1/sessions`, target: 'elsewhere', enctype: 'text/plain' })
  document.body.append(form)
  form.submit()
  return told
}"""

FRAME: Final = """async (host) => {
  const frame = document.createElement('iframe')
  const loaded = new Promise(resolve => frame.addEventListener('load', resolve))
  frame.src = host
  document.body.append(frame)
  await loaded
  try { return frame.contentDocument === null ? 'refused' : 'readable' } catch { return 'refused' }
}"""


def test_another_site_neither_reads_nor_acts(visitor: Visitor, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html><title>another site</title>")
    with static_site(tmp_path) as site, visitor.browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.goto(site)
        outcomes = page.evaluate(TRY, [visitor.url, visitor.token])
        assert set(outcomes.values()) == {"refused"}, outcomes
        assert page.evaluate(FRAME, visitor.url) == "refused"
        assert all("agentrail" not in frame.title() for frame in page.frames[1:])
    assert visitor.calls.get("/v1/sessions/planted").status_code == 404
