#include "plugins/hip/libraries/collective_library.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "plugins/hip/libraries/nccl.h"
#include "plugins/hip/libraries/vendor_library.h"

namespace backplane::hip {

std::string ArrayCollective::ToString() const {
  constexpr const char* kKinds[] = {"all-reduce", "reduce-scatter", "all-gather", "all-to-all", "permute"};
  constexpr const char* kReducers[] = {"", " sum", " product", " maximum", " minimum"};
  return absl::StrCat(
      kKinds[static_cast<size_t>(kind)], kReducers[static_cast<size_t>(reducer)], " of ",
      reducer == Reducer::kNone ? absl::StrCat(block_bytes(), " bytes") : absl::StrCat(count, " ", Name(type)),
      kind == Kind::kPermute ? absl::StrCat(" from ", absl::StrJoin(source, ",")) : "", ", ", members, " members");
}

OpenedCollectiveLibrary OpenCollectiveLibrary(const HipApi& api, const std::string& name) {
  std::string file = name;
  if (file.empty() && api.platform == Platform::kAmd) file = "librccl.so.1";
  if (file.empty() && api.platform == Platform::kNvidia) file = "libnccl.so.2";
  if (file.empty()) return {};
  const absl::StatusOr<VendorLibrary> opened = OpenVendorLibrary({file});
  if (!opened.ok()) {
    if (name.empty() && absl::IsNotFound(opened.status())) return {};
    return {nullptr, absl::StrCat("collectives by a vendor's library: ", opened.status().message())};
  }
  absl::StatusOr<std::shared_ptr<const CollectiveLibrary>> made = nccl::Open(api, *opened);
  if (!made.ok()) return {nullptr, absl::StrCat(file, " is not used: ", made.status().message())};
  std::string note = absl::StrCat("collectives by ", (*made)->name(), " are compared with copies between devices");
  return {*std::move(made), std::move(note)};
}

}  // namespace backplane::hip
