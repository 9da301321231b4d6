// backplane-probe: the child process of sdk/host/probe.h.
#include "sdk/host/probe_report.h"

int main(int argc, char** argv) { return backplane::host::ProbeMain(argc, argv); }
