"""Phrasings that ask to write and edit files."""

from __future__ import annotations

from agentrail.adapters.models.demo.phrasings.phrasing import said

WRITE = (
    said(
        "write down {text} in|into {file}",
        "Write down milk and eggs in list.txt.",
        text="milk and eggs",
        path="list.txt",
    ),
    said("write {text} to|into|in {file}", "Write hello world to notes.txt.", text="hello world", path="notes.txt"),
    said("write to|into {file} {text}", "Write to notes.txt: hello world", text="hello world", path="notes.txt"),
    said(
        "write [a|the] [new] file {path} with|containing {text}",
        'Write a file a.md with "# Hi".',
        text="# Hi",
        path="a.md",
    ),
    said(
        "write {file} with|containing {text}",
        "Write a.md with the text good morning.",
        text="good morning",
        path="a.md",
    ),
    said(
        "write [the|this] [following] to|into {file} {text}",
        "Write this to a.py:\n```python\nx = 1\n```",
        text="x = 1",
        path="a.py",
    ),
    said(
        "save|store|put [this|the] [following] to|in|into|as {file} {text}",
        "Save as a.txt: hello",
        text="hello",
        path="a.txt",
    ),
    said("save {text} to|in|into|as|under {file}", "Save 'buy milk' as todo.txt.", text="buy milk", path="todo.txt"),
    said("store {text} in|into|as|under {file}", "Store 42 in answer.txt.", text="42", path="answer.txt"),
    said("put {text} in|into {file}", "Put the text hello into the file greeting.", text="hello", path="greeting"),
    said("output {text} to|into {file}", "Output done to status.txt.", text="done", path="status.txt"),
    said(
        "set [the] content|contents of {file} to {text}",
        "Set the contents of a.txt to one two.",
        text="one two",
        path="a.txt",
    ),
    said(
        "replace [the] [whole] content|contents of {file} with|by {text}",
        "Replace the contents of a.txt with two.",
        text="two",
        path="a.txt",
    ),
    said("overwrite {file} with|by {text}", "Overwrite a.txt with nothing much.", text="nothing much", path="a.txt"),
    said("fill {file} with {text}", "Fill notes.txt with lorem ipsum.", text="lorem ipsum", path="notes.txt"),
    said(
        "create|make|add|generate [a|the] [new] file {path} with|containing {text}",
        "Create a new file b.txt with hi.",
        text="hi",
        path="b.txt",
    ),
    said(
        "create|make|add|generate [a|the] [new] file {path} that|which says|contains {text}",
        "Make a file b.txt that says hi.",
        text="hi",
        path="b.txt",
    ),
    said(
        "create|make|add|generate [a|the] [new] file {path} and write {text} to|into|in it",
        "Create a file b.txt and write hi in it.",
        text="hi",
        path="b.txt",
    ),
    said(
        "create|make|add|generate [a|the] [new] file {path} {text}",
        "Create the file b.txt: hi",
        text="hi",
        path="b.txt",
    ),
    said(
        "create|make|generate {file} with|containing {text}",
        "Create b.txt with the content hi there.",
        text="hi there",
        path="b.txt",
    ),
    said(
        "create|make|add|generate [a|an] [new] [empty] file {path}",
        "Create an empty file src/new.py.",
        path="src/new.py",
    ),
    said("create|touch {file}", "Touch src/new.py", path="src/new.py"),
    said("let|make {file} say|contain|read {text}", "Let sign.txt say closed.", text="closed", path="sign.txt"),
)

EDIT = (
    said(
        "replace {old} with|by {new} in {path}",
        "Replace red with blue in colours.txt.",
        old="red",
        new="blue",
        path="colours.txt",
    ),
    said(
        "in {path} replace {old} with|by {new}",
        "In notes.txt, replace tea with coffee.",
        old="tea",
        new="coffee",
        path="notes.txt",
    ),
    said(
        "change {old} to|into {new} in {path}",
        "Change foo to bar in src/app.py.",
        old="foo",
        new="bar",
        path="src/app.py",
    ),
    said(
        "in {path} change {old} to|into {new}",
        "In src/app.py change `x = 1` to `x = 2`.",
        old="x = 1",
        new="x = 2",
        path="src/app.py",
    ),
    said("change {path} from {old} to {new}", "Change VERSION from 1.0 to 1.1", old="1.0", new="1.1", path="VERSION"),
    said("rename {old} to {new} in {path}", "Rename spam to eggs in menu.py.", old="spam", new="eggs", path="menu.py"),
    said(
        "substitute {new} for {old} in {path}",
        "Substitute honey for sugar in recipe.md.",
        old="sugar",
        new="honey",
        path="recipe.md",
    ),
    said(
        "swap {old} for|with {new} in {path}",
        "Swap left for right in map.txt.",
        old="left",
        new="right",
        path="map.txt",
    ),
    said(
        "turn {old} into {new} in {path}", "Turn 'cat' into 'dog' in pets.txt.", old="cat", new="dog", path="pets.txt"
    ),
    said(
        "edit|update|modify {path} and|to replace {old} with|by {new}",
        "Edit a.txt to replace one by two.",
        old="one",
        new="two",
        path="a.txt",
    ),
    said(
        "edit|update|modify {path} replace {old} with|by {new}",
        "Edit a.txt: replace one with two.",
        old="one",
        new="two",
        path="a.txt",
    ),
    said(
        "edit|update|modify {path} and|to change {old} to|into {new}",
        "Update a.txt and change one to two.",
        old="one",
        new="two",
        path="a.txt",
    ),
    said(
        "edit|update|modify {path} change {old} to|into {new}",
        "Modify a.txt: change one to two.",
        old="one",
        new="two",
        path="a.txt",
    ),
    said(
        "edit|update|modify {path} so that {old} becomes {new}",
        "Edit a.txt so that one becomes two.",
        old="one",
        new="two",
        path="a.txt",
    ),
    said(
        "edit|update|modify {path} replacing {old} with|by {new}",
        "Update a.txt replacing one with two.",
        old="one",
        new="two",
        path="a.txt",
    ),
    said(
        "find {old} and replace it with|by {new} in {path}",
        "Find colour and replace it with color in a.md.",
        old="colour",
        new="color",
        path="a.md",
    ),
    said(
        "find and replace {old} with|by {new} in {path}",
        "Find and replace colour with color in a.md.",
        old="colour",
        new="color",
        path="a.md",
    ),
    said(
        "put {new} instead of {old} in {path}", "Put two instead of one in a.txt.", old="one", new="two", path="a.txt"
    ),
    said(
        "use {new} instead of {old} in {path}",
        "Use tabs instead of spaces in a.txt.",
        old="spaces",
        new="tabs",
        path="a.txt",
    ),
    said(
        "correct|fix {old} to {new} in {path}",
        "Correct 'teh' to 'the' in essay.txt.",
        old="teh",
        new="the",
        path="essay.txt",
    ),
)
