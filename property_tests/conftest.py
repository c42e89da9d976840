from tests import hook_time
from tests.profiles import CAMPAIGN, load_profile

load_profile(examples=40)
hook_time.allow(hook_time.ANY)

# They test the tests, which takes as long as a third of all properties.
collect_ignore = [] if CAMPAIGN else ["test_mutants.py", "test_planted.py"]
