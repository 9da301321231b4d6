#include "plugins/hip/libraries/cublas.h"

#include <dlfcn.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "plugins/hip/libraries/cuda_data_type.h"

namespace backplane::hip::cublas {
namespace {

constexpr int kOldestMajor = 11, kOldestMinor = 4;

absl::Status CheckCublas(Enum status, absl::string_view what) {
  if (status == 0) return absl::OkStatus();
  // 3: memory; 15: not supported.
  const absl::StatusCode code = status == 3    ? absl::StatusCode::kResourceExhausted
                                : status == 15 ? absl::StatusCode::kUnimplemented
                                               : absl::StatusCode::kInternal;
  return absl::Status(code, absl::StrCat(what, " returned status ", status));
}

class CublasHandleOwner : public LibraryHandle {
 public:
  CublasHandleOwner(const Functions& functions, Handle handle) : handle(handle), functions_(functions) {}
  ~CublasHandleOwner() override { (void)functions_.destroy(handle); }
  const Handle handle;

 private:
  const Functions functions_;
};

std::optional<Enum> ComputeType(const MatrixProduct& product) {
  switch (product.sum_type) {
    case PrimitiveType::kF32:
      if (product.type != PrimitiveType::kF32) return kCompute32F;
      return product.rounds_to_tf32 ? kCompute32FFastTf32 : kCompute32FPedantic;
    case PrimitiveType::kF64:
      return kCompute64FPedantic;
    case PrimitiveType::kS32:
      return kCompute32I;
    default:
      return std::nullopt;
  }
}

class CublasProduct : public ProductCall {
 public:
  CublasProduct(const Functions& functions, const MatrixProduct& product) : functions_(functions), p_(product) {}

  absl::Status Enqueue(LibraryHandle& handle, const void* lhs, const void* rhs, void* out) const override {
    const ProductScalars scalars(p_.sum_type);
    const auto operation = [](const MatrixProduct::Factor& f) { return f.transposed ? kOperationT : kOperationN; };
    const auto address = [&](const MatrixProduct::Factor& f) { return f.argument == 0 ? lhs : rhs; };
    const Enum type = *cuda_type::FindNumber(p_.type);
    return CheckCublas(
        functions_.gemm_strided_batched_ex(
            static_cast<CublasHandleOwner&>(handle).handle, operation(p_.a), operation(p_.b), static_cast<int>(p_.m),
            static_cast<int>(p_.n), static_cast<int>(p_.k), scalars.one(), address(p_.a), type,
            static_cast<int>(p_.a.leading), p_.a.stride, address(p_.b), type, static_cast<int>(p_.b.leading),
            p_.b.stride, scalars.zero(), out, *cuda_type::FindNumber(p_.out_type), static_cast<int>(p_.leading),
            p_.stride, static_cast<int>(p_.batch), *ComputeType(p_), kGemmDefault),
        "cublasGemmStridedBatchedEx");
  }

 private:
  const Functions functions_;
  const MatrixProduct p_;
};

class Cublas : public ProductLibrary {
 public:
  Cublas(const Functions& functions, std::string name) : functions_(functions), name_(std::move(name)) {}
  const std::string& name() const override { return name_; }

  absl::StatusOr<std::unique_ptr<LibraryHandle>> MakeHandle(hipStream_t stream) const override {
    Handle made = nullptr;
    RETURN_IF_ERROR(CheckCublas(functions_.create(&made), "cublasCreate"));
    auto handle = std::make_unique<CublasHandleOwner>(functions_, made);
    RETURN_IF_ERROR(CheckCublas(functions_.set_stream(made, stream), "cublasSetStream"));
    RETURN_IF_ERROR(CheckCublas(functions_.set_math_mode(made, kDefaultMath | kDisallowReducedPrecisionReduction),
                                "cublasSetMathMode"));
    RETURN_IF_ERROR(CheckCublas(functions_.set_atomics_mode(made, kAtomicsNotAllowed), "cublasSetAtomicsMode"));
    return handle;
  }

  absl::StatusOr<std::vector<std::shared_ptr<const ProductCall>>> ListCalls(
      LibraryHandle&, const MatrixProduct& product) const override {
    std::vector<std::shared_ptr<const ProductCall>> calls;
    if (cuda_type::FindNumber(product.type) && cuda_type::FindNumber(product.out_type) && ComputeType(product))
      calls.push_back(std::make_shared<CublasProduct>(functions_, product));
    return calls;
  }

 private:
  const Functions functions_;
  const std::string name_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ProductLibrary>> Open(const HipApi& api, const VendorLibrary& library) {
  if (dlsym(library.handle, "cublasCreate_v2") == nullptr) return absl::NotFoundError("it has no function of cuBLAS");
  Functions functions;
  const VendorSymbol symbols[] = {
#define BACKPLANE_CUBLAS_SYMBOL(member, name, parameters) {name, reinterpret_cast<void**>(&functions.member)},
      BACKPLANE_CUBLAS_FUNCTIONS(BACKPLANE_CUBLAS_SYMBOL)
#undef BACKPLANE_CUBLAS_SYMBOL
  };
  RETURN_IF_ERROR(FindVendorSymbols(library, symbols));
  RETURN_IF_ERROR(CheckSameRuntime(library, api));
  int major = 0, minor = 0, patch = 0;
  RETURN_IF_ERROR(CheckCublas(functions.get_property(kMajorVersion, &major), "cublasGetProperty"));
  RETURN_IF_ERROR(CheckCublas(functions.get_property(kMinorVersion, &minor), "cublasGetProperty"));
  RETURN_IF_ERROR(CheckCublas(functions.get_property(kPatchLevel, &patch), "cublasGetProperty"));
  if (std::pair(major, minor) < std::pair(kOldestMajor, kOldestMinor)) {
    return absl::FailedPreconditionError(
        absl::StrCat("its version is ", major, ".", minor, " and must be at least ", kOldestMajor, ".", kOldestMinor));
  }
  return std::make_shared<Cublas>(functions, absl::StrCat(library.name, " (", major, ".", minor, ".", patch, ")"));
}

}  // namespace backplane::hip::cublas
