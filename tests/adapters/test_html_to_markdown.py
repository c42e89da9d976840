"""A page of HTML is Markdown for a model: its texts, and what their tags mean."""

from agentrail.adapters.html_to_markdown import to_markdown

PAGE = """<title>Tea</title><p>One
  pot <b>now</b></p><script>drink()</script><ul><li>green<li>black</ul><pre>a
 b</pre>"""


def test_texts_are_written_with_what_their_tags_mean() -> None:
    expected = "# Tea\n\nOne pot **now**\n\n- green\n- black\n\n```\na\n b\n```"
    assert to_markdown(PAGE, "https://example.org/") == expected
