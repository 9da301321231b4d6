// Custom calls that run a Python callable. The host passes a table of callables with each execution, and its Python
// package registers a function that calls one of them. There is no Python here.
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "sdk/shim/ffi/foreign_call.h"
#include "sdk/shim/ffi/frame.h"

namespace backplane::shim::ffi {
namespace {

constexpr absl::string_view kTargets[] = {"xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback"};

class PythonSite : public CustomCallSite {
 public:
  PythonSite(Registry& registry, uint64_t index) : registry_(registry), index_(index) {}
  bool NeedsHostMemory() const override { return true; }

  absl::StatusOr<Event> Call(const CustomCallFrame& frame) override {
    Backplane_Callback_Trampoline trampoline = registry_.trampoline();
    if (trampoline == nullptr) {
      return absl::UnimplementedError("python callback: needs the plugin's python package, which was not loaded");
    }
    ASSIGN_OR_RETURN(void* callable, FindCallable(static_cast<const ContextData*>(frame.context)));
    absl::InlinedVector<Backplane_Callback_Arg, 8> args, rets;
    for (const CustomCallBuffer& b : frame.operands) args.push_back(ToArg(b));
    for (const CustomCallBuffer& b : frame.results) rets.push_back(ToArg(b));
    std::string error(64 * 1024, '\0');
    const int failed = CallForeign([&] {
      return trampoline(callable, static_cast<int64_t>(args.size()), args.data(), static_cast<int64_t>(rets.size()),
                        rets.data(), error.data(), error.size());
    });
    if (failed != 0) return absl::InternalError(error.c_str());
    return Event();
  }

 private:
  static Backplane_Callback_Arg ToArg(const CustomCallBuffer& b) {
    return {static_cast<int32_t>(b.type), b.type == PrimitiveType::kToken ? nullptr : b.data,
            static_cast<int64_t>(b.dims.size()), b.dims.data()};
  }

  absl::StatusOr<void*> FindCallable(const ContextData* context) const {
    if (context == nullptr || context->entries.empty()) {
      return absl::FailedPreconditionError("python callback: the execution came without the host's table of callables");
    }
    const int64_t wanted = registry_.callback_type_id();
    const void* data = nullptr;
    for (const auto& [id, entry] : context->entries) {
      if (id == wanted || (wanted == 0 && context->entries.size() == 1)) data = entry;
    }
    if (data == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat("python callback: no user data of type ", wanted, " among ",
                                                        context->entries.size(), " entries"));
    }
    const auto* table = static_cast<const Backplane_Callback_Table*>(data);
    if (index_ >= table->num) {
      return absl::InvalidArgumentError(
          absl::StrCat("python callback: index ", index_, " of ", table->num, " callables"));
    }
    return table->callbacks[index_];
  }

  Registry& registry_;
  const uint64_t index_;
};

}  // namespace

bool IsPythonTarget(absl::string_view target) {
  for (absl::string_view t : kTargets) {
    if (t == target) return true;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<CustomCallSite>> MakePythonSite(Registry& registry, const CustomCallSpec& spec) {
  auto it = spec.attributes.find("index");
  if (it == spec.attributes.end() || it->second.kind != FfiAttribute::Kind::kScalar || it->second.bytes.size() != 8) {
    return absl::InvalidArgumentError(absl::StrCat(
        "custom call '", spec.target, "': expected the attribute index : ui64, found ", ToString(spec.attributes)));
  }
  uint64_t index;
  std::memcpy(&index, it->second.bytes.data(), sizeof(index));
  return std::unique_ptr<CustomCallSite>(std::make_unique<PythonSite>(registry, index));
}

}  // namespace backplane::shim::ffi
