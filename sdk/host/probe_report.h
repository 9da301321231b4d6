// What the child of probe.h finds out and how it tells: one JSON object a line, each {"stage": ..} or {"facts": {..}}
// or
// {"status": {"code": .., "message": ..}}.
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

// A list of named values as an object.
Json ToJson(absl::Span<const NamedValue> values);
// What is known of an opened plugin without calling it: version, slots, extensions.
Json TableFacts(const Plugin& plugin);

// Goes through the stages in this process and hands each record to `tell`. Returns the outcome.
absl::Status ProbeHere(const std::string& library, bool create_client, absl::Span<const NamedValue> create_options,
                       const std::function<void(const Json&)>& tell);

// The child: `--fd=N`, `--no-client`, options `--option=name=value`, then the library. Ends with the process.
int ProbeMain(int argc, char** argv);

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_PROBE_REPORT_H_
