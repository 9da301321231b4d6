// The page that shows a trace. The data replaces the text /*DATA*/.
#ifndef BACKPLANE_SDK_LAYERS_TRACE_PAGE_H_
#define BACKPLANE_SDK_LAYERS_TRACE_PAGE_H_

#include "absl/strings/string_view.h"

namespace backplane::layers {

absl::string_view TracePage();

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_TRACE_PAGE_H_
