// Conversion of named values in both directions.
#ifndef BACKPLANE_SDK_SHIM_NAMED_VALUES_H_
#define BACKPLANE_SDK_SHIM_NAMED_VALUES_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "api/pjrt_c_api.h"
#include "sdk/backend/backend.h"

namespace backplane::shim {

// Owns values and the C array that refers to them. Must not be moved.
class NamedValueList {
 public:
  NamedValueList() = default;
  explicit NamedValueList(NamedValues values);
  NamedValueList(const NamedValueList&) = delete;
  NamedValueList& operator=(const NamedValueList&) = delete;
  void Assign(NamedValues values);

  const PJRT_NamedValue* data() const { return list_.data(); }
  size_t size() const { return list_.size(); }

 private:
  NamedValues values_;
  std::vector<PJRT_NamedValue> list_;
};

// Returns InvalidArgument for a null name, a duplicate name, or an unknown type of value.
absl::StatusOr<NamedValues> ReadNamedValues(const PJRT_NamedValue* values, size_t count);

}  // namespace backplane::shim

#endif  // BACKPLANE_SDK_SHIM_NAMED_VALUES_H_
