"""Phrasings that ask to run commands, to remember facts and to count."""

from __future__ import annotations

from agentrail.adapters.models.demo.phrasings.phrasing import said

RUN = (
    said("run|execute {command} in|on [the|a] shell|terminal|console|bash", "Run ls in the shell.", command="ls"),
    said(
        "run|execute|issue|invoke|call [the|this] [following] [shell|bash] command|commands {command}",
        "Run the command `ls -la`.",
        command="ls -la",
    ),
    said("run|execute this|following {command}", "Run this: pytest -q", command="pytest -q"),
    said("run|execute the following {command}", "Execute the following:\npwd", command="pwd"),
    said("run {command}", "Run git log", command="git log"),
    said("execute {command}", "Execute make test", command="make test"),
    said("exec {command}", "exec uname -a", command="uname -a"),
    said(
        "in|on the|a shell|terminal|console|bash run|execute|type {command}",
        "In the terminal, run npm test",
        command="npm test",
    ),
    said(
        "use|ask [the|a] shell|terminal|console|bash [tool] to run|execute|do {command}",
        "Use the shell to run df -h",
        command="df -h",
    ),
    said(
        "let|have|make the shell|terminal|console run|execute|do {command}", "Let the shell run df -h", command="df -h"
    ),
    said(
        "open [the|a] shell|terminal|console and run|execute|type {command}",
        "Open a terminal and run top -b",
        command="top -b",
    ),
    said("shell|bash|terminal|sh {command}", "bash: ls | wc -l", command="ls | wc -l"),
    said("command {command}", "Command: whoami", command="whoami"),
    said("$ {command}", "$ ls -l", command="ls -l"),
    said(
        "type|enter {command} in|into|on the|a shell|terminal|console|bash",
        "Type date into the console.",
        command="date",
    ),
    said(
        "what is the output|result of [running] [the] [command] {command}",
        "What is the output of `uname -r`?",
        command="uname -r",
    ),
    said("what does [the] [command] {command} print|output|return", "What does `date +%Y` print?", command="date +%Y"),
    said(
        "show|give|tell [me] [the] output|result of [running] [the] [command] {command}",
        "Show me the output of git status",
        command="git status",
    ),
    said("see|check what [the] [command] {command} prints|outputs|returns", "See what nproc prints", command="nproc"),
    said("try running|executing {command}", "Try running make lint", command="make lint"),
    said("try [the] command {command}", "Try the command env", command="env"),
    said("{known}", "git status", command="git status"),
)

REMEMBER = (
    said("remember [that] {fact}", "Remember that my name is Ada.", fact="my name is Ada"),
    said("always remember [that] {fact}", "Always remember: tests come first.", fact="tests come first"),
    said("never forget [that] {fact}", "Never forget that ducks float.", fact="ducks float"),
    said("do not forget [that] {fact}", "Do not forget the milk.", fact="the milk"),
    said("don't forget [that] {fact}", "Don't forget that I like tea.", fact="I like tea"),
    said("keep in mind [that] {fact}", "Keep in mind that it is Monday.", fact="it is Monday"),
    said("keep [this] in mind {fact}", "Keep this in mind: the port is 8080.", fact="the port is 8080"),
    said("bear in mind [that] {fact}", "Bear in mind we use tabs.", fact="we use tabs"),
    said("make|take|keep a note that|of {fact}", "Make a note that the build is slow.", fact="the build is slow"),
    said("make|take|keep a note {fact}", "Take a note: call Bob.", fact="call Bob"),
    said("note to self {fact}", "Note to self: sleep more.", fact="sleep more"),
    said("note [down] [that] {fact}", "Note that the key is under the mat.", fact="the key is under the mat"),
    said("write down that {fact}", "Write down that lunch is at noon.", fact="lunch is at noon"),
    said("jot down [that] {fact}", "Jot down: two eggs.", fact="two eggs"),
    said("memorize|memorise [that] {fact}", "Memorise the number 17.", fact="the number 17"),
    said("learn that {fact}", "Learn that I prefer short answers.", fact="I prefer short answers"),
    said("commit {fact} to memory", "Commit the year 1984 to memory.", fact="the year 1984"),
    said(
        "save|store|add|put|write {fact} to|in|into [your|the] memory",
        "Save my birthday is in May in your memory.",
        fact="my birthday is in May",
    ),
    said(
        "save|store|add|put|write to|in|into [your|the] memory [that] {fact}",
        "Save to memory: the sky is blue.",
        fact="the sky is blue",
    ),
    said("save|store|record [the|this] [fact] that {fact}", "Record that we met on Friday.", fact="we met on Friday"),
    said("for the record {fact}", "For the record, I am left-handed.", fact="I am left-handed"),
    said(
        "for later|future [reference|use] {fact}",
        "For future reference: deploys are on Tuesday.",
        fact="deploys are on Tuesday",
    ),
)

COUNT = (
    said("count to {number}", "Count to 20.", number="20"),
    said("count up to {number}", "Count up to 10.", number="10"),
    said("count from one|1 to {number}", "Count from 1 to 12.", number="12"),
    said("count from one|1 up to {number}", "Count from one up to 7.", number="7"),
    said("count until|till {number}", "Count until 15.", number="15"),
    said("count all the way to {number}", "Count all the way to 100.", number="100"),
    said("count all the way up to {number}", "Count all the way up to 50.", number="50"),
    said("count as far as {number}", "Count as far as 30.", number="30"),
    said("count slowly to|until {number}", "Count slowly to 8.", number="8"),
    said("slowly count to|until {number}", "Slowly count to 9.", number="9"),
    said("count to {number} slowly|aloud|loudly", "Count to 11 slowly.", number="11"),
    said("count {number} seconds", "Count 25 seconds.", number="25"),
    said("count the first {number} numbers", "Count the first 14 numbers.", number="14"),
    said("count off {number} numbers|seconds", "Count off 16 seconds.", number="16"),
    said("start counting to|until {number}", "Start counting to 18.", number="18"),
    said("start counting up to {number}", "Start counting up to 19.", number="19"),
    said("keep counting to|until|till {number}", "Keep counting until 40.", number="40"),
    said("do a count to|of {number}", "Do a count to 5.", number="5"),
)
