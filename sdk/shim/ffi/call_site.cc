// A call site of a registered handler: its attributes, its state, and the frames of its calls.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/subnormals.h"
#include "sdk/backend/lapack_calls.h"
#include "sdk/shim/ffi/foreign_call.h"
#include "sdk/shim/ffi/frame.h"

namespace backplane::shim::ffi {

XLA_FFI_Attrs AttributeTable::Encode(const FfiDictionary& dictionary) {
  Level& level = levels_.emplace_back();
  const size_t n = dictionary.size();
  level.types.reserve(n);
  level.name_spans.reserve(n);
  for (const auto& [name, attribute] : dictionary) {
    level.name_spans.push_back({name.data(), name.size()});
    switch (attribute.kind) {
      case FfiAttribute::Kind::kScalar:
        aligned_.push_back(attribute.bytes + std::string(16, '\0'));
        scalars_.push_back({static_cast<XLA_FFI_DataType>(attribute.type), aligned_.back().data()});
        level.types.push_back(XLA_FFI_AttrType_SCALAR);
        level.values.push_back(&scalars_.back());
        break;
      case FfiAttribute::Kind::kArray:
        aligned_.push_back(attribute.bytes + std::string(16, '\0'));
        arrays_.push_back({static_cast<XLA_FFI_DataType>(attribute.type), static_cast<size_t>(attribute.array_size()),
                           aligned_.back().data()});
        level.types.push_back(XLA_FFI_AttrType_ARRAY);
        level.values.push_back(&arrays_.back());
        break;
      case FfiAttribute::Kind::kString:
        strings_.push_back({attribute.bytes.data(), attribute.bytes.size()});
        level.types.push_back(XLA_FFI_AttrType_STRING);
        level.values.push_back(&strings_.back());
        break;
      case FfiAttribute::Kind::kDictionary: {
        XLA_FFI_Attrs inner = Encode(attribute.dictionary);
        dictionaries_.push_back(inner);
        level.types.push_back(XLA_FFI_AttrType_DICTIONARY);
        level.values.push_back(&dictionaries_.back());
        break;
      }
    }
  }
  for (XLA_FFI_ByteSpan& span : level.name_spans) level.names.push_back(&span);
  XLA_FFI_Attrs attrs{};
  attrs.struct_size = XLA_FFI_Attrs_STRUCT_SIZE;
  attrs.size = static_cast<int64_t>(n);
  attrs.types = level.types.data();
  attrs.names = level.names.data();
  attrs.attrs = level.values.data();
  return attrs;
}

namespace {

// All objects of one call to which a handler may refer until its future is set.
struct Call {
  XLA_FFI_InvokeContext context;
  absl::InlinedVector<XLA_FFI_Buffer, 8> buffers;
  absl::InlinedVector<void*, 8> pointers;
  absl::InlinedVector<XLA_FFI_ArgType, 8> arg_types;
  absl::InlinedVector<XLA_FFI_RetType, 8> ret_types;
  XLA_FFI_CallFrame frame{};

  Call(Registry& registry, StateSlot& state, const CustomCallFrame* in) {
    context.registry = &registry;
    context.instantiated = &state;
    // Handlers compare this size with the published one, which excludes the last field.
    frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
    frame.api = Api();
    frame.ctx = &context;
    frame.args.struct_size = XLA_FFI_Args_STRUCT_SIZE;
    frame.rets.struct_size = XLA_FFI_Rets_STRUCT_SIZE;
    frame.attrs.struct_size = XLA_FFI_Attrs_STRUCT_SIZE;
    if (in == nullptr) return;
    context.user_data = static_cast<const ContextData*>(in->context);
    context.run_id = in->run_id;
    context.device_ordinal = in->device_ordinal;
    context.stream = in->stream;
    context.scratch = in->scratch;
    const size_t operands = in->operands.size(), results = in->results.size();
    buffers.resize(operands + results);
    pointers.resize(operands + results);
    arg_types.assign(operands, XLA_FFI_ArgType_BUFFER);
    ret_types.assign(results, XLA_FFI_RetType_BUFFER);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const CustomCallBuffer& b = i < operands ? in->operands[i] : in->results[i - operands];
      buffers[i].struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
      buffers[i].extension_start = nullptr;
      buffers[i].dtype = static_cast<XLA_FFI_DataType>(b.type);
      buffers[i].data = b.type == PrimitiveType::kToken ? nullptr : b.data;
      buffers[i].rank = static_cast<int64_t>(b.dims.size());
      buffers[i].dims = const_cast<int64_t*>(b.dims.data());
      pointers[i] = &buffers[i];
    }
    frame.args.size = static_cast<int64_t>(operands);
    frame.args.types = arg_types.data();
    frame.args.args = pointers.data();
    frame.rets.size = static_cast<int64_t>(results);
    frame.rets.types = ret_types.data();
    frame.rets.rets = pointers.data() + operands;
  }

  absl::Status Run(XLA_FFI_Handler* handler, XLA_FFI_ExecutionStage stage) {
    context.stage = stage;
    frame.stage = stage;
    frame.future = nullptr;
    return TakeFfiError(CallForeign([&] { return handler(&frame); }));
  }

  // The completion of the last stage that ran.
  Event TakeFuture() {
    XLA_FFI_Future* future = std::exchange(frame.future, nullptr);
    if (future == nullptr) return Event();
    Event event = future->event;
    future->Release();
    return event;
  }
};

// Held during a call of LAPACK with a large matrix.
std::mutex lapack_mu;

std::unique_lock<std::mutex> LockLapack(bool is_lapack, const CustomCallFrame& frame) {
  const bool is_large = is_lapack && std::any_of(frame.operands.begin(), frame.operands.end(),
                                                 [](const auto& b) { return HasLargeMatrix(b.type, b.dims); });
  return is_large ? std::unique_lock<std::mutex>(lapack_mu) : std::unique_lock<std::mutex>();
}

class TypedSite : public CustomCallSite {
 public:
  TypedSite(Registry& registry, const Handler& handler, const CustomCallSpec& spec)
      : registry_(registry),
        bundle_(handler.bundle),
        target_(spec.target),
        is_lapack_(IsLapackTarget(spec.target)),
        dictionary_(spec.attributes),
        table_(dictionary_) {}

  absl::Status Prepare() {
    RETURN_IF_ERROR(CheckMetadata());
    if (bundle_.instantiate == nullptr) return absl::OkStatus();
    auto call = std::make_unique<shim::ffi::Call>(registry_, state_, nullptr);
    call->frame.attrs = table_.attrs();
    RETURN_IF_ERROR(Named(call->Run(bundle_.instantiate, XLA_FFI_ExecutionStage_INSTANTIATE)));
    return Named(call->TakeFuture().Await());
  }

  absl::StatusOr<Event> Call(const CustomCallFrame& frame) override {
    auto call = std::make_shared<shim::ffi::Call>(registry_, state_, &frame);
    call->frame.attrs = table_.attrs();
    if (bundle_.prepare != nullptr) {
      RETURN_IF_ERROR(Named(call->Run(bundle_.prepare, XLA_FFI_ExecutionStage_PREPARE)));
      RETURN_IF_ERROR(Named(call->TakeFuture().Await()));
    }
    if (bundle_.initialize != nullptr) {
      RETURN_IF_ERROR(Named(call->Run(bundle_.initialize, XLA_FFI_ExecutionStage_INITIALIZE)));
      RETURN_IF_ERROR(Named(call->TakeFuture().Await()));
    }
    {
      // XLA's CPU client runs handlers in this mode, and some results of JAX depend on it: a matrix with a row of
      // subnormal numbers counts as singular.
      const ScopedSubnormals like_xla(Subnormals::kFlushAll);
      const std::unique_lock<std::mutex> lock = LockLapack(is_lapack_, frame);
      RETURN_IF_ERROR(Named(call->Run(bundle_.execute, XLA_FFI_ExecutionStage_EXECUTE)));
    }
    Event future = call->TakeFuture();
    if (future.IsReady()) return Event::Ready(Named(future.status()));
    // The call lives until its future is set. Waiting work is notified afterwards.
    Promise promise("custom call");
    Event done = promise.event();
    future.OnReady(
        [call = std::move(call), promise = std::move(promise), target = target_](const absl::Status& status) mutable {
          call.reset();
          promise.Set(Name(target, status));
        });
    return done;
  }

 private:
  static absl::Status Name(const std::string& target, const absl::Status& status) {
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat("custom call '", target, "': ", status.message()));
  }
  absl::Status Named(const absl::Status& status) const { return Name(target_, status); }

  // Queries the version of the interface with which the handler was compiled. Older and newer minor versions are
  // supported, because structs and the table grow at their ends only.
  absl::Status CheckMetadata() {
    XLA_FFI_Metadata metadata{};
    metadata.struct_size = sizeof(XLA_FFI_Metadata);
    metadata.api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
    XLA_FFI_Metadata_Extension extension{};
    extension.extension_base.struct_size = XLA_FFI_Metadata_Extension_STRUCT_SIZE;
    extension.extension_base.type = XLA_FFI_Extension_Metadata;
    extension.metadata = &metadata;
    auto call = std::make_unique<shim::ffi::Call>(registry_, state_, nullptr);
    call->frame.extension_start = &extension.extension_base;
    RETURN_IF_ERROR(Named(call->Run(bundle_.execute, XLA_FFI_ExecutionStage_EXECUTE)));
    if (metadata.api_version.major_version != XLA_FFI_API_MAJOR) {
      return absl::UnimplementedError(absl::StrCat(
          "custom call '", target_, "': the handler speaks FFI ", metadata.api_version.major_version, ".",
          metadata.api_version.minor_version, ", this plugin ", XLA_FFI_API_MAJOR, ".", XLA_FFI_API_MINOR));
    }
    return absl::OkStatus();
  }

  Registry& registry_;
  const XLA_FFI_Handler_Bundle bundle_;
  const std::string target_;
  const bool is_lapack_;
  const FfiDictionary dictionary_;
  const AttributeTable table_;  // points into dictionary_
  StateSlot state_;
};

// api_version 1: the address of the result (or of a list of the results' addresses), and the addresses of the operands.
class UntypedSite : public CustomCallSite {
 public:
  UntypedSite(void* function, const std::string& target)
      : function_(reinterpret_cast<Function>(function)), is_lapack_(IsLapackTarget(target)) {}
  bool NeedsHostMemory() const override { return true; }

  absl::StatusOr<Event> Call(const CustomCallFrame& frame) override {
    absl::InlinedVector<const void*, 8> operands;
    for (const CustomCallBuffer& b : frame.operands) operands.push_back(b.data);
    absl::InlinedVector<void*, 8> results;
    for (const CustomCallBuffer& b : frame.results) results.push_back(b.data);
    const std::unique_lock<std::mutex> lock = LockLapack(is_lapack_, frame);
    function_(results.size() == 1 ? results[0] : static_cast<void*>(results.data()), operands.data());
    return Event();
  }

 private:
  using Function = void (*)(void*, const void**);
  const Function function_;
  const bool is_lapack_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CustomCallSite>> MakeTypedSite(Registry& registry, const Handler& handler,
                                                              const CustomCallSpec& spec) {
  auto site = std::make_unique<TypedSite>(registry, handler, spec);
  RETURN_IF_ERROR(site->Prepare());
  return std::unique_ptr<CustomCallSite>(std::move(site));
}

std::unique_ptr<CustomCallSite> MakeUntypedSite(void* function, const std::string& target) {
  return std::make_unique<UntypedSite>(function, target);
}

}  // namespace backplane::shim::ffi
