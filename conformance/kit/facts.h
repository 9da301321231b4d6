// Describes a plugin, for the first part of a report.
#ifndef BACKPLANE_CONFORMANCE_KIT_FACTS_H_
#define BACKPLANE_CONFORMANCE_KIT_FACTS_H_

#include "conformance/kit/kit.h"

namespace backplane::conformance {

// Ends the check as a pass with a JSON object as its note: API version, slots, extensions, platform, devices,
// attributes.
void ReportFacts(Kit& k);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_FACTS_H_
