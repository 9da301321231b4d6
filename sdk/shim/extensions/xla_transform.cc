// Transformations of programs by hosts. We apply them at one point, to the imported program before the backend gets it.
// Transformations of both stages run there, those of the earlier stage first.
#include "api/extensions/xla_transform.h"
#include "base/mutex.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/import/proto/hlo_proto.h"
#include "sdk/shim/extensions/extensions.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

struct Transformation {
  std::string name;
  PJRT_XlaTransform_PipelineStage stage;
  std::shared_ptr<PJRT_XlaTransform_Callbacks> callbacks;
};
struct Transformations {
  Mutex mu;
  std::vector<Transformation> list ABSL_GUARDED_BY(mu);  // by stage, then in order of registration
};
Transformations& All() {
  static auto* all = new Transformations;
  return *all;
}

absl::Status Register(PJRT_Register_Xla_Transform_Args& a) {
  BP_REQUIRE(a.name);
  BP_REQUIRE(a.callbacks);
  if (a.callbacks->version > PJRT_API_XLA_TRANSFORM_EXTENSION_VERSION) {
    return absl::UnimplementedError(absl::StrCat("xla transform: callbacks of version ", a.callbacks->version));
  }
  BP_REQUIRE(a.callbacks->transform_hlo_module);
  if (a.stage != PJRT_XlaTransform_PipelineStage_kPreScheduler &&
      a.stage != PJRT_XlaTransform_PipelineStage_kPostScheduler) {
    return absl::InvalidArgumentError(absl::StrCat("xla transform: stage ", static_cast<int>(a.stage)));
  }
  Transformation t{std::string(a.name, a.name_size), a.stage,
                   std::shared_ptr<PJRT_XlaTransform_Callbacks>(a.callbacks, [](PJRT_XlaTransform_Callbacks* c) {
                     if (c->dtor != nullptr) c->dtor(c);
                   })};
  MutexLock lock(All().mu);
  std::vector<Transformation>& list = All().list;
  auto after = std::upper_bound(list.begin(), list.end(), t.stage,
                                [](auto stage, const Transformation& other) { return stage < other.stage; });
  list.insert(after, std::move(t));
  return absl::OkStatus();
}

absl::Status Clear(PJRT_Clear_Xla_Transform_Args& a) {
  BP_REQUIRE(a.name);
  const absl::string_view name(a.name, a.name_size);
  std::vector<Transformation> gone;  // freed after the lock is released, because this runs code of the host
  {
    MutexLock lock(All().mu);
    std::vector<Transformation>& list = All().list;
    auto rest = std::stable_partition(list.begin(), list.end(), [&](const Transformation& t) {
      return t.name != name || t.stage != a.stage || (a.callbacks != nullptr && t.callbacks.get() != a.callbacks);
    });
    std::move(rest, list.end(), std::back_inserter(gone));
    list.erase(rest, list.end());
  }
  a.cleared = !gone.empty();
  return absl::OkStatus();
}

absl::Status Named(const Transformation& t, const absl::Status& s) {
  return absl::Status(s.code(), absl::StrCat("transformation ", t.name, ": ", s.message()));
}

// Returns the transformed program; null if it is unchanged.
absl::StatusOr<std::unique_ptr<Module>> Apply(const Transformation& t, const std::string& bytes) {
  PJRT_XlaTransform_Args args{};
  args.struct_size = PJRT_XlaTransform_Args_STRUCT_SIZE;
  args.header.api_version = PJRT_API_XLA_TRANSFORM_EXTENSION_VERSION;
  args.hlo_module = {bytes.data(), bytes.size()};
  t.callbacks->transform_hlo_module(t.callbacks.get(), &args);
  struct Cleanup {
    PJRT_XlaTransform_version_and_error& header;
    ~Cleanup() {
      if (header.cleanup_fn != nullptr) header.cleanup_fn(header.data);
    }
  } let_go{args.header};
  if (args.header.has_error) {
    const bool known = args.header.code > PJRT_Error_Code_OK && args.header.code <= PJRT_Error_Code_UNAUTHENTICATED;
    return absl::Status(known ? static_cast<absl::StatusCode>(args.header.code) : absl::StatusCode::kUnknown,
                        absl::string_view(args.header.error_msg.data, args.header.error_msg.size));
  }
  if (!args.changed) return nullptr;
  return ParseHloModuleProto(absl::string_view(args.transformed_hlo_module.data, args.transformed_hlo_module.size));
}

bool SameProgramShape(const Module& a, const Module& b) {
  const std::vector<Instruction*>&x = a.entry()->parameters(), &y = b.entry()->parameters();
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i]->shape().WithoutLayout() != y[i]->shape().WithoutLayout()) return false;
  }
  return a.entry()->root()->shape().WithoutLayout() == b.entry()->root()->shape().WithoutLayout();
}

}  // namespace

bool HasTransformations() {
  MutexLock lock(All().mu);
  return !All().list.empty();
}

absl::Status TransformProgram(std::unique_ptr<Module>* module) {
  std::vector<Transformation> list;
  {
    MutexLock lock(All().mu);
    list = All().list;
  }
  for (const Transformation& t : list) {
    ASSIGN_OR_RETURN(std::string bytes, SerializeHloModule(**module));
    absl::StatusOr<std::unique_ptr<Module>> changed = Apply(t, bytes);
    if (!changed.ok()) return Named(t, changed.status());
    if (*changed == nullptr) continue;
    if ((*changed)->entry() == nullptr || !SameProgramShape(**module, **changed)) {
      return Named(t, absl::InvalidArgumentError("the changed program has other parameters or results"));
    }
    // Properties that the messages of a host cannot express (partitions, memory kinds, requested layouts) are restored.
    (*changed)->config() = (*module)->config();
    *module = *std::move(changed);
  }
  return absl::OkStatus();
}

PJRT_Extension_Base* XlaTransformExtension() {
  static PJRT_Xla_Transform_Extension extension = [] {
    PJRT_Xla_Transform_Extension e{};
    e.base = {PJRT_Xla_Transform_Extension_STRUCT_SIZE, PJRT_Extension_Type_XlaTransform, nullptr};
    e.register_xla_transform = BP_ENTRY(PJRT_Register_Xla_Transform, &Register);
    e.clear_xla_transform = BP_ENTRY(PJRT_Clear_Xla_Transform, &Clear);
    return e;
  }();
  return &extension.base;
}

}  // namespace backplane::shim
