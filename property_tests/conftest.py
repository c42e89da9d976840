from tests.profiles import load_profile

load_profile()
