// The data of an executable that the ABI returns by pointer. It lives as long as the PJRT_Executable.
#ifndef BACKPLANE_SDK_SHIM_EXECUTABLE_VIEWS_H_
#define BACKPLANE_SDK_SHIM_EXECUTABLE_VIEWS_H_

#include <optional>
#include <string>
#include <vector>

#include "api/extensions/layouts.h"
#include "sdk/shim/objects.h"

struct PJRT_Layouts_MemoryLayout {
  backplane::Layout layout;
};

namespace backplane::shim {

struct StringViews {
  std::vector<std::string> strings;
  std::vector<const char*> pointers;
  std::vector<size_t> sizes;
  void SetPointers();  // must be called once, when the strings are complete
};

struct LayoutViews {
  std::vector<PJRT_Layouts_MemoryLayout> layouts;
  std::vector<PJRT_Layouts_MemoryLayout*> pointers;
};

struct ExecutableViews {
  explicit ExecutableViews(const Executable& executable);
  std::string fingerprint;
  NamedValueList cost;
  StringViews parameter_memory_kinds, output_memory_kinds;
  std::vector<PJRT_Buffer_Type> output_types;
  std::vector<int64_t> output_dims;
  std::vector<size_t> output_ranks;
  LayoutViews parameter_layouts, output_layouts;
  std::optional<StringViews> parameter_shardings, output_shardings;  // serialized OpSharding; empty: unknown
};

}  // namespace backplane::shim

#endif  // BACKPLANE_SDK_SHIM_EXECUTABLE_VIEWS_H_
