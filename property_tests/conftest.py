from tests import hook_time
from tests.profiles import load_profile

load_profile()
hook_time.allow(hook_time.ANY)
