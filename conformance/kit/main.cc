// conform: judges a PJRT plugin by its path. docs/conformance.md is its manual.
#include "conformance/kit/judge.h"

int main(int argc, char** argv) { return backplane::conformance::ConformMain({argv + 1, argv + argc}); }
