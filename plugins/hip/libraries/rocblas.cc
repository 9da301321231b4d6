#include "plugins/hip/libraries/rocblas.h"

#include <dlfcn.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane::hip::rocblas {
namespace {

absl::Status Check(Enum status, absl::string_view what) {
  if (status == 0) return absl::OkStatus();
  // 5: memory; 2 and 14: not implemented, or left out of this build.
  const absl::StatusCode code = status == 5                   ? absl::StatusCode::kResourceExhausted
                                : status == 2 || status == 14 ? absl::StatusCode::kUnimplemented
                                                              : absl::StatusCode::kInternal;
  return absl::Status(code, absl::StrCat(what, " returned status ", status));
}

class RocblasHandleOwner : public LibraryHandle {
 public:
  RocblasHandleOwner(const Functions& functions, Handle handle) : handle(handle), functions_(functions) {}
  ~RocblasHandleOwner() override { (void)functions_.destroy_handle(handle); }
  const Handle handle;

 private:
  const Functions functions_;
};

std::optional<Enum> TypeNumber(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kF16:
      return kF16;
    case PrimitiveType::kBF16:
      return kBF16;
    case PrimitiveType::kF32:
      return kF32;
    case PrimitiveType::kF64:
      return kF64;
    case PrimitiveType::kS8:
      return kS8;
    case PrimitiveType::kS32:
      return kS32;
    default:
      return std::nullopt;
  }
}

class RocblasProduct : public ProductCall {
 public:
  RocblasProduct(const Functions& functions, const MatrixProduct& product) : functions_(functions), p_(product) {}

  absl::Status Enqueue(LibraryHandle& handle, const void* lhs, const void* rhs, void* out) const override {
    const Enum type = *TypeNumber(p_.type), out_type = *TypeNumber(p_.out_type), sum_type = *TypeNumber(p_.sum_type);
    const ProductScalars scalars(p_.sum_type);
    const auto operation = [](const MatrixProduct::Factor& f) {
      return f.transposed ? kOperationTranspose : kOperationNone;
    };
    const auto address = [&](const MatrixProduct::Factor& f) { return f.argument == 0 ? lhs : rhs; };
    return Check(functions_.gemm_strided_batched_ex(
                     static_cast<RocblasHandleOwner&>(handle).handle, operation(p_.a), operation(p_.b),
                     static_cast<int32_t>(p_.m), static_cast<int32_t>(p_.n), static_cast<int32_t>(p_.k), scalars.one(),
                     address(p_.a), type, static_cast<int32_t>(p_.a.leading), p_.a.stride, address(p_.b), type,
                     static_cast<int32_t>(p_.b.leading), p_.b.stride, scalars.zero(), out, out_type,
                     static_cast<int32_t>(p_.leading), p_.stride, out, out_type, static_cast<int32_t>(p_.leading),
                     p_.stride, static_cast<int32_t>(p_.batch), sum_type, kAlgorithmStandard, 0, 0),
                 "rocblas_gemm_strided_batched_ex");
  }

 private:
  const Functions functions_;
  const MatrixProduct p_;
};

class Rocblas : public ProductLibrary {
 public:
  Rocblas(const Functions& functions, std::string name) : functions_(functions), name_(std::move(name)) {}
  const std::string& name() const override { return name_; }

  absl::StatusOr<std::unique_ptr<LibraryHandle>> MakeHandle(hipStream_t stream) const override {
    Handle made = nullptr;
    RETURN_IF_ERROR(Check(functions_.create_handle(&made), "rocblas_create_handle"));
    auto handle = std::make_unique<RocblasHandleOwner>(functions_, made);
    RETURN_IF_ERROR(Check(functions_.set_stream(made, stream), "rocblas_set_stream"));
    // Results must be the same in every run.
    RETURN_IF_ERROR(Check(functions_.set_atomics_mode(made, kAtomicsNotAllowed), "rocblas_set_atomics_mode"));
    return handle;
  }

  absl::StatusOr<std::vector<std::shared_ptr<const ProductCall>>> ListCalls(
      LibraryHandle&, const MatrixProduct& product) const override {
    std::vector<std::shared_ptr<const ProductCall>> calls;
    const bool has_types = TypeNumber(product.type) && TypeNumber(product.out_type) && TypeNumber(product.sum_type);
    if (has_types) calls.push_back(std::make_shared<RocblasProduct>(functions_, product));
    return calls;
  }

 private:
  const Functions functions_;
  const std::string name_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ProductLibrary>> Open(const HipApi& api, const VendorLibrary& library,
                                                           const std::string& architecture) {
  if (dlsym(library.handle, "rocblas_create_handle") == nullptr)
    return absl::NotFoundError("it has no function of rocBLAS");
  Functions functions;
  const VendorSymbol symbols[] = {
#define BACKPLANE_ROCBLAS_SYMBOL(member, name, parameters) {name, reinterpret_cast<void**>(&functions.member)},
      BACKPLANE_ROCBLAS_FUNCTIONS(BACKPLANE_ROCBLAS_SYMBOL)
#undef BACKPLANE_ROCBLAS_SYMBOL
  };
  RETURN_IF_ERROR(FindVendorSymbols(library, symbols));
  RETURN_IF_ERROR(CheckSameRuntime(library, api));
  if (api.platform == Platform::kAmd) {
    const std::string folder = FolderOfFunction(reinterpret_cast<const void*>(functions.create_handle));
    if (!HasKernelFiles(folder, "rocblas", "ROCBLAS_TENSILE_LIBPATH", architecture))
      return absl::FailedPreconditionError(absl::StrCat("it has no kernels for ", architecture));
  }
  char version[128] = "";
  const Enum known = functions.get_version_string(version, sizeof version);
  const std::string name =
      known == 0 && *version != '\0' ? absl::StrCat(library.name, " (", version, ")") : library.name;
  return std::make_shared<Rocblas>(functions, name);
}

}  // namespace backplane::hip::rocblas
