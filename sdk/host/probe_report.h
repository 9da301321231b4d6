// The results of the child process of probe.h and their format: one JSON object per line, each {"stage": ..}, {"facts":
// {..}} or {"status": {"code": .., "message": ..}}.
//
// Members of the facts: api_version [major, minor], table_size, slots {known, present, missing [names]}, extensions
// [{type, name, struct_size}], attributes {..}, platform_name, platform_version, process_index, devices [{id, kind,
// text, addressable, memories [kinds], attributes {..}}].
#ifndef BACKPLANE_SDK_HOST_PROBE_REPORT_H_
#define BACKPLANE_SDK_HOST_PROBE_REPORT_H_

#include <functional>
#include <string>

#include "absl/types/span.h"
#include "sdk/host/json.h"
#include "sdk/host/loader.h"

namespace backplane::host {

// Converts a list of named values to an object.
Json ToJson(absl::Span<const NamedValue> values);
// Returns the properties of an opened plugin that need no call: version, slots, extensions.
Json DescribeTable(const Plugin& plugin);

// Runs the stages in this process and passes each JSON object above to `tell`. Returns the final status.
absl::Status ProbeInThisProcess(const std::string& library, bool create_client,
                                absl::Span<const NamedValue> create_options,
                                const std::function<void(const Json&)>& tell);

// The main function of the child. Arguments: `--fd=N`, `--no-client`, options `--option=name=value`, then the library.
// Does not return.
int ProbeMain(int argc, char** argv);

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_PROBE_REPORT_H_
