def pytest_addoption(parser):
    parser.addoption("--tool", required=True, help="the program_tool of the build to test")
