"""Shell command lines, as `SecurityGuard` reads them: parsed, never run."""
