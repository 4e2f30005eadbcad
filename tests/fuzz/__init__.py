"""Programs that search for crashes and hangs: more of it with a larger NKI_TEST_EXAMPLES."""
