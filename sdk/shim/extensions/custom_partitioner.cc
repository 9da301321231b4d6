// Hosts register here how their custom calls are partitioned; the partitioner calls what they register
// (core/passes/partition/custom_partitioning.h).
#include "api/extensions/custom_partitioner.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "core/import/import.h"
#include "core/import/proto/sharding_proto.h"
#include "core/passes/partition/custom_partitioning.h"
#include "sdk/shim/extensions/extensions.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

using Callbacks = JAX_CustomCallPartitioner_Callbacks;
using Bytes = JAX_CustomCallPartitioner_string;

constexpr char kInspectSharding[] = "InspectSharding";

// The names that hosts have registered, now or earlier.
struct RegisteredNames {
  Mutex mu;
  std::set<std::string> names ABSL_GUARDED_BY(mu);
};
RegisteredNames& AllNames() {
  static auto* all = new RegisteredNames;
  return *all;
}

// The strings still belong to the caller.
Bytes Lend(absl::string_view s) { return {s.data(), s.size()}; }
absl::string_view View(const Bytes& b) {
  return b.data == nullptr ? absl::string_view() : absl::string_view(b.data, b.size);
}

struct ValueViews {
  std::string shape, sharding;
  explicit ValueViews(const CustomPartitioning::Value& v)
      : shape(SerializeShape(v.shape)), sharding(SerializeSharding(v.sharding)) {}
  JAX_CustomCallPartitioner_aval view() const { return {Lend(shape), true, Lend(sharding)}; }
};

// Frees the host's strings, after the result of the callback has been copied.
class Answer {
 public:
  explicit Answer(JAX_CustomCallPartitioner_version_and_error* header) : header_(*header) {}
  ~Answer() {
    if (header_.cleanup_fn != nullptr) header_.cleanup_fn(header_.data);
  }
  absl::Status status() const {
    if (!header_.has_error) return absl::OkStatus();
    const bool known = header_.code > PJRT_Error_Code_OK && header_.code <= PJRT_Error_Code_UNAUTHENTICATED;
    return absl::Status(known ? static_cast<absl::StatusCode>(header_.code) : absl::StatusCode::kUnknown,
                        View(header_.error_msg));
  }

 private:
  JAX_CustomCallPartitioner_version_and_error& header_;
};

absl::Status Wrong(absl::string_view what, const absl::Status& s) {
  return absl::Status(s.code(), absl::StrCat("the host's ", what, ": ", s.message()));
}

absl::StatusOr<CustomPartitioning::PartitionedCall> Ask(Callbacks* callbacks,
                                                        absl::Span<const CustomPartitioning::Value> operands,
                                                        const CustomPartitioning::Value& result,
                                                        absl::string_view config) {
  std::vector<ValueViews> lent;
  lent.reserve(operands.size());
  std::vector<JAX_CustomCallPartitioner_aval> values;
  for (const CustomPartitioning::Value& v : operands) values.push_back(lent.emplace_back(v).view());
  const ValueViews lent_result(result);
  JAX_CustomCallPartitioner_Partition_Args args{};
  args.num_args = values.size();
  args.op_args = values.data();
  args.op_result = lent_result.view();
  args.backend_config = Lend(config);
  callbacks->partition(callbacks, &args);
  const Answer answer(&args.header);
  RETURN_IF_ERROR(answer.status());
  if (args.args_sharding == nullptr && args.num_args > 0) {
    return absl::InvalidArgumentError("the host gives no shardings of operands");
  }
  CustomPartitioning::PartitionedCall split;
  absl::StatusOr<std::unique_ptr<Module>> program = ImportProgram("mlir", View(args.mlir_module));
  if (!program.ok()) {
    const bool jaxlibs = absl::StartsWith(View(args.mlir_module), "ML\xefR");
    return Wrong(jaxlibs ? "program (which the Python package backplane_jax hands over as text)" : "program",
                 program.status());
  }
  split.program = *std::move(program);
  for (size_t k = 0; k < args.num_args; ++k) {
    absl::StatusOr<Sharding> sharding = ParseSerializedSharding(View(args.args_sharding[k]));
    if (!sharding.ok()) return Wrong(absl::StrCat("sharding of operand ", k), sharding.status());
    split.operands.push_back(*std::move(sharding));
  }
  absl::StatusOr<Sharding> sharding = ParseSerializedSharding(View(args.result_sharding));
  if (!sharding.ok()) return Wrong("sharding of the result", sharding.status());
  split.result = *std::move(sharding);
  return split;
}

absl::Status RegisterPartitioner(PJRT_Register_Custom_Partitioner_Args& a) {
  BP_REQUIRE(a.name);
  BP_REQUIRE(a.callbacks);
  if (a.callbacks->version != 0) {
    return absl::UnimplementedError("custom partitioner: callbacks of a version other than 0");
  }
  BP_REQUIRE(a.callbacks->partition);
  // We own the callbacks from here on. They live until another partitioner gets the name and no compilation uses them
  // any more.
  std::shared_ptr<Callbacks> callbacks(a.callbacks, [](Callbacks* c) {
    if (c->dtor != nullptr) c->dtor(c);
  });
  auto functions = std::make_shared<CustomPartitioning>();
  functions->partition = [callbacks](absl::Span<const CustomPartitioning::Value> operands,
                                     const CustomPartitioning::Value& result, absl::string_view config) {
    return Ask(callbacks.get(), operands, result, config);
  };
  const absl::string_view name(a.name, a.name_size);
  RegisterCustomPartitioning(name, std::move(functions));
  MutexLock lock(AllNames().mu);
  AllNames().names.emplace(name);
  return absl::OkStatus();
}

// The program itself states which of its calls work on each element of the leading dimensions separately (frontend
// attribute num_batch_dims), and is partitioned accordingly. So there is nothing to store.
absl::Status RegisterBatchPartitionable(PJRT_Register_Batch_Partitionable_Args& a) {
  BP_REQUIRE(a.name);
  return absl::OkStatus();
}

// The config that JAX writes into a custom call "InspectSharding": the callback that gets the sharding of the operand.
// The layout is that of jaxlib, in C, for all versions with this call.
struct InspectArgs {
  const char* sharding;  // serialized OpSharding
  size_t sharding_size;
  const char* error;  // out: null, or a message
  void* error_scratch;
  void (*free_error)(InspectArgs* args);
};
struct InspectCallback {
  void (*call)(void* data, InspectArgs* args);
  void* data;
};

absl::Status ReportSharding(const Sharding& sharding, absl::string_view config) {
  InspectCallback callback;
  if (config.size() != sizeof(callback)) {
    return absl::InvalidArgumentError(
        absl::StrCat("its config has ", config.size(), " bytes, expected ", sizeof(callback)));
  }
  std::memcpy(&callback, config.data(), sizeof(callback));
  // The address is valid in this process only, but programs may be stored in files. So it must be the address of a
  // function.
  Dl_info found;
  if (callback.call == nullptr || dladdr(reinterpret_cast<void*>(callback.call), &found) == 0) {
    return absl::InvalidArgumentError("its config is no callback of this process");
  }
  const std::string bytes = SerializeSharding(sharding);
  InspectArgs args{bytes.data(), bytes.size(), nullptr, nullptr, nullptr};
  callback.call(callback.data, &args);
  if (args.error == nullptr) return absl::OkStatus();
  absl::Status status = absl::InternalError(args.error);
  if (args.free_error != nullptr) args.free_error(&args);
  return status;
}

}  // namespace

bool CallsHostWhenPartitioned(absl::string_view program) {
  if (absl::StrContains(program, kInspectSharding)) return true;
  MutexLock lock(AllNames().mu);
  return std::any_of(AllNames().names.begin(), AllNames().names.end(),
                     [&](const std::string& name) { return absl::StrContains(program, name); });
}

PJRT_Extension_Base* CustomPartitionerExtension() {
  static PJRT_Custom_Partitioner_Extension extension = [] {
    auto inspect = std::make_shared<CustomPartitioning>();
    inspect->inspect = ReportSharding;
    RegisterCustomPartitioning(kInspectSharding, std::move(inspect));
    PJRT_Custom_Partitioner_Extension e{};
    e.base = {PJRT_Custom_Partitioner_Extension_STRUCT_SIZE, PJRT_Extension_Type_Custom_Partitioner, nullptr};
    e.register_custom_partitioner = BP_ENTRY(PJRT_Register_Custom_Partitioner, &RegisterPartitioner);
    e.register_batch_partitionable = BP_ENTRY(PJRT_Register_Batch_Partitionable, &RegisterBatchPartitionable);
    return e;
  }();
  return &extension.base;
}

}  // namespace backplane::shim
