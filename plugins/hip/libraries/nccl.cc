#include "plugins/hip/libraries/nccl.h"

#include <dlfcn.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "core/types/status_macros.h"

namespace backplane::hip::nccl {
namespace {

absl::Status CheckResult(Enum result, absl::string_view what) {
  if (result == 0) return absl::OkStatus();
  // 4 and 5: arguments or usage. 6: another device failed. There is no number for memory.
  return absl::InternalError(absl::StrCat(what, " returned ", result));
}

class NcclCommunicators : public Communicators {
 public:
  NcclCommunicators(const Functions& functions, std::vector<Comm> comms)
      : functions_(functions), comms_(std::move(comms)) {}
  ~NcclCommunicators() override {
    MutexLock lock(mu_);
    if (aborted_) return;
    for (Comm comm : comms_) (void)functions_.comm_destroy(comm);
  }

  absl::Status Enqueue(absl::Span<const ArrayCollective> collectives, absl::Span<const CollectivePart> parts) override {
    MutexLock lock(mu_);
    if (aborted_) return absl::AbortedError("the connections between the devices were ended");
    RETURN_IF_ERROR(CheckResult(functions_.group_start(), "ncclGroupStart"));
    absl::Status status;
    for (size_t c = 0; c < collectives.size() && status.ok(); ++c)
      status = EnqueueOne(collectives[c], parts.subspan(c * comms_.size(), comms_.size()));
    // A group that was begun must be ended.
    const absl::Status ended = CheckResult(functions_.group_end(), "ncclGroupEnd");
    return status.ok() ? ended : status;
  }

  void Abort() override {
    MutexLock lock(mu_);
    if (std::exchange(aborted_, true)) return;
    for (Comm comm : comms_) (void)functions_.comm_abort(comm);
  }

  absl::Status FindError() override {
    MutexLock lock(mu_);
    if (aborted_) return absl::AbortedError("the connections between the devices were ended");
    for (Comm comm : comms_) {
      Enum error = 0;
      RETURN_IF_ERROR(CheckResult(functions_.comm_get_async_error(comm, &error), "ncclCommGetAsyncError"));
      RETURN_IF_ERROR(CheckResult(error, "a collective"));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status EnqueueOne(const ArrayCollective& c, absl::Span<const CollectivePart> parts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const Enum type = *FindType(c.type), reducer = FindReducer(c.reducer).value_or(kSum);
    const size_t count = static_cast<size_t>(c.count);
    for (size_t m = 0; m < parts.size(); ++m) {
      const CollectivePart& p = parts[m];
      const Comm comm = comms_[m];
      switch (c.kind) {
        case ArrayCollective::Kind::kAllReduce:
          RETURN_IF_ERROR(CheckResult(functions_.all_reduce(p.operand, p.result, count, type, reducer, comm, p.stream),
                                      "ncclAllReduce"));
          break;
        case ArrayCollective::Kind::kReduceScatter:
          RETURN_IF_ERROR(
              CheckResult(functions_.reduce_scatter(p.operand, p.result, count, type, reducer, comm, p.stream),
                          "ncclReduceScatter"));
          break;
        case ArrayCollective::Kind::kAllGather:
          RETURN_IF_ERROR(
              CheckResult(functions_.all_gather(p.operand, p.result, count, type, comm, p.stream), "ncclAllGather"));
          break;
        case ArrayCollective::Kind::kAllToAll:
          for (size_t peer = 0; peer < parts.size(); ++peer) {
            const int64_t offset = static_cast<int64_t>(peer) * c.block_bytes();
            RETURN_IF_ERROR(Send(static_cast<const std::byte*>(p.operand) + offset, c, peer, m, p.stream));
            RETURN_IF_ERROR(Receive(static_cast<std::byte*>(p.result) + offset, c, peer, m, p.stream));
          }
          break;
        case ArrayCollective::Kind::kPermute:
          for (size_t to = 0; to < parts.size(); ++to) {
            if (c.source[to] == static_cast<int64_t>(m)) RETURN_IF_ERROR(Send(p.operand, c, to, m, p.stream));
          }
          if (c.source[m] >= 0) RETURN_IF_ERROR(Receive(p.result, c, static_cast<size_t>(c.source[m]), m, p.stream));
          break;
      }
    }
    return absl::OkStatus();
  }
  absl::Status Send(const void* from, const ArrayCollective& c, size_t peer, size_t own, hipStream_t stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return CheckResult(functions_.send(from, static_cast<size_t>(c.count), *FindType(c.type), static_cast<int>(peer),
                                       comms_[own], stream),
                       "ncclSend");
  }
  absl::Status Receive(void* to, const ArrayCollective& c, size_t peer, size_t own, hipStream_t stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return CheckResult(functions_.receive(to, static_cast<size_t>(c.count), *FindType(c.type), static_cast<int>(peer),
                                          comms_[own], stream),
                       "ncclRecv");
  }

  const Functions functions_;
  const std::vector<Comm> comms_;
  Mutex mu_;
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
};

class NcclLibrary : public CollectiveLibrary {
 public:
  NcclLibrary(const Functions& functions, std::string name) : functions_(functions), name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  bool Supports(const ArrayCollective& c) const override {
    return FindType(c.type).has_value() &&
           (c.reducer == ArrayCollective::Reducer::kNone || FindReducer(c.reducer).has_value());
  }
  absl::StatusOr<std::unique_ptr<Communicators>> Connect(absl::Span<const int> devices) const override {
    std::vector<Comm> comms(devices.size());
    RETURN_IF_ERROR(CheckResult(
        functions_.comm_init_all(comms.data(), static_cast<int>(devices.size()), devices.data()), "ncclCommInitAll"));
    return std::make_unique<NcclCommunicators>(functions_, std::move(comms));
  }

 private:
  const Functions functions_;
  const std::string name_;
};

}  // namespace

std::optional<Enum> FindType(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kS8:
      return kInt8;
    case PrimitiveType::kU8:
      return kUint8;
    case PrimitiveType::kS32:
      return kInt32;
    case PrimitiveType::kU32:
      return kUint32;
    case PrimitiveType::kS64:
      return kInt64;
    case PrimitiveType::kU64:
      return kUint64;
    case PrimitiveType::kF16:
      return kFloat16;
    case PrimitiveType::kF32:
      return kFloat32;
    case PrimitiveType::kF64:
      return kFloat64;
    case PrimitiveType::kBF16:
      return kBfloat16;
    default:
      return std::nullopt;
  }
}

std::optional<Enum> FindReducer(ArrayCollective::Reducer reducer) {
  switch (reducer) {
    case ArrayCollective::Reducer::kSum:
      return kSum;
    case ArrayCollective::Reducer::kProduct:
      return kProduct;
    case ArrayCollective::Reducer::kMaximum:
      return kMaximum;
    case ArrayCollective::Reducer::kMinimum:
      return kMinimum;
    default:
      return std::nullopt;
  }
}

absl::StatusOr<std::shared_ptr<const CollectiveLibrary>> Open(const HipApi& api, const VendorLibrary& library) {
  if (dlsym(library.handle, "ncclGetVersion") == nullptr) return absl::NotFoundError("it has no function of NCCL");
  Functions functions;
  const VendorSymbol symbols[] = {
#define BACKPLANE_NCCL_SYMBOL(member, name, parameters) {name, reinterpret_cast<void**>(&functions.member)},
      BACKPLANE_NCCL_FUNCTIONS(BACKPLANE_NCCL_SYMBOL)
#undef BACKPLANE_NCCL_SYMBOL
  };
  RETURN_IF_ERROR(FindVendorSymbols(library, symbols));
  RETURN_IF_ERROR(CheckSameRuntime(library, api));
  int version = 0;
  RETURN_IF_ERROR(CheckResult(functions.get_version(&version), "ncclGetVersion"));
  if (version < kMinVersion)
    return absl::FailedPreconditionError(absl::StrCat("its version is ", version, "; expected ", kMinVersion));
  const std::string name =
      absl::StrCat(library.name, " (", version / 10000, ".", version / 100 % 100, ".", version % 100, ")");
  return std::make_shared<NcclLibrary>(functions, name);
}

}  // namespace backplane::hip::nccl
