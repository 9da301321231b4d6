#include "plugins/hip/libraries/lt_library.h"

#include <dlfcn.h>

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "plugins/hip/libraries/cuda_data_type.h"

namespace backplane::hip::lt {
namespace {

// What a handle has for the algorithms that need memory: what NVIDIA advises for its largest GPUs.
constexpr uint64_t kWorkspaceBytes = uint64_t{32} << 20;
constexpr int kAlgorithms = 4;  // that are tried
constexpr size_t kMostAlgorithmBytes = 64;
constexpr uint32_t kOperandAlignment = 64;  // of arrays in a program's memory

absl::Status CheckLt(const Dialect& dialect, Enum status, absl::string_view what) {
  if (status == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(dialect.prefix, what, " returned status ", status));
}

Enum LtComputeType(const Dialect& dialect, const MatrixProduct& product) {
  if (product.sum_type == PrimitiveType::kF64) return dialect.compute_f64;
  if (product.sum_type == PrimitiveType::kS32) return dialect.compute_s32;
  if (product.type != PrimitiveType::kF32) return dialect.compute_f32;
  return product.rounds_to_tf32 ? dialect.compute_f32_by_tf32 : dialect.compute_f32_exact;
}

class LtHandle : public LibraryHandle {
 public:
  LtHandle(const Functions& functions, const HipApi& api, hipStream_t stream)
      : stream(stream), functions_(functions), free_(api.hipFree) {}
  ~LtHandle() override {
    if (handle != nullptr) (void)functions_.destroy(handle);
    if (workspace != nullptr) (void)free_(workspace);
  }
  Handle handle = nullptr;
  void* workspace = nullptr;
  const hipStream_t stream;

 private:
  const Functions functions_;
  hipError_t (*const free_)(void*);
};

// The descriptors of a product. Constant once they are made.
class LtProblem {
 public:
  LtProblem(const Functions& functions, const Dialect& dialect) : functions_(functions), dialect_(dialect) {}
  ~LtProblem() {
    for (const Layout layout : {a, b, d}) {
      if (layout != nullptr) (void)functions_.layout_destroy(layout);
    }
    if (descriptor != nullptr) (void)functions_.descriptor_destroy(descriptor);
  }
  LtProblem(const LtProblem&) = delete;
  LtProblem& operator=(const LtProblem&) = delete;

  absl::Status Make(const MatrixProduct& p) {
    RETURN_IF_ERROR(CheckLt(
        dialect_,
        functions_.descriptor_create(&descriptor, LtComputeType(dialect_, p), *cuda_type::FindNumber(p.sum_type)),
        "MatmulDescCreate"));
    for (const auto& [factor, attribute] :
         {std::pair(&p.a, dialect_.descriptor_transpose_a), std::pair(&p.b, dialect_.descriptor_transpose_b)}) {
      const Enum operation = factor->transposed ? dialect_.operation_t : dialect_.operation_n;
      RETURN_IF_ERROR(CheckLt(dialect_, functions_.descriptor_set(descriptor, attribute, &operation, sizeof operation),
                              "MatmulDescSetAttribute"));
    }
    RETURN_IF_ERROR(MakeLayout(&a, p.type, p.a.transposed ? p.k : p.m, p.a.transposed ? p.m : p.k, p.a.leading,
                               p.a.stride, p.batch));
    RETURN_IF_ERROR(MakeLayout(&b, p.type, p.b.transposed ? p.n : p.k, p.b.transposed ? p.k : p.n, p.b.leading,
                               p.b.stride, p.batch));
    return MakeLayout(&d, p.out_type, p.m, p.n, p.leading, p.stride, p.batch);
  }

  Descriptor descriptor = nullptr;
  Layout a = nullptr, b = nullptr, d = nullptr;

 private:
  absl::Status MakeLayout(Layout* layout, PrimitiveType type, int64_t rows, int64_t columns, int64_t leading,
                          int64_t stride, int64_t batch) {
    RETURN_IF_ERROR(CheckLt(dialect_,
                            functions_.layout_create(layout, *cuda_type::FindNumber(type), static_cast<uint64_t>(rows),
                                                     static_cast<uint64_t>(columns), leading),
                            "MatrixLayoutCreate"));
    if (batch == 1) return absl::OkStatus();
    const int32_t count = static_cast<int32_t>(batch);
    RETURN_IF_ERROR(CheckLt(dialect_, functions_.layout_set(*layout, dialect_.layout_batch_count, &count, sizeof count),
                            "MatrixLayoutSetAttribute"));
    return CheckLt(dialect_, functions_.layout_set(*layout, dialect_.layout_batch_stride, &stride, sizeof stride),
                   "MatrixLayoutSetAttribute");
  }

  const Functions functions_;
  const Dialect& dialect_;
};

class LtProduct : public ProductCall {
 public:
  LtProduct(const Functions& functions, const Dialect& dialect, const MatrixProduct& product,
            std::shared_ptr<const LtProblem> problem, const char* algorithm, int number)
      : functions_(functions), dialect_(dialect), p_(product), problem_(std::move(problem)), number_(number) {
    std::memcpy(algorithm_.data(), algorithm, dialect.algorithm_bytes);
  }
  std::string Describe() const override { return absl::StrCat(" by algorithm ", number_); }

  absl::Status Enqueue(LibraryHandle& handle, const void* lhs, const void* rhs, void* out) const override {
    auto& own = static_cast<LtHandle&>(handle);
    const ProductScalars scalars(p_.sum_type);
    const auto address = [&](const MatrixProduct::Factor& f) { return f.argument == 0 ? lhs : rhs; };
    return CheckLt(dialect_,
                   functions_.matmul(own.handle, problem_->descriptor, scalars.one(), address(p_.a), problem_->a,
                                     address(p_.b), problem_->b, scalars.zero(), out, problem_->d, out, problem_->d,
                                     algorithm_.data(), own.workspace, kWorkspaceBytes, own.stream),
                   "Matmul");
  }

 private:
  const Functions functions_;
  const Dialect& dialect_;
  const MatrixProduct p_;
  const std::shared_ptr<const LtProblem> problem_;
  const int number_;
  alignas(8) std::array<char, kMostAlgorithmBytes> algorithm_{};
};

class LtLibrary : public ProductLibrary {
 public:
  LtLibrary(const HipApi& api, const Functions& functions, const Dialect& dialect, std::string name)
      : api_(api), functions_(functions), dialect_(dialect), name_(std::move(name)) {}
  const std::string& name() const override { return name_; }

  absl::StatusOr<std::unique_ptr<LibraryHandle>> MakeHandle(hipStream_t stream) const override {
    auto handle = std::make_unique<LtHandle>(functions_, api_, stream);
    RETURN_IF_ERROR(CheckLt(dialect_, functions_.create(&handle->handle), "Create"));
    RETURN_IF_ERROR(ToStatus(api_.hipMalloc(&handle->workspace, kWorkspaceBytes), "allocating a library's workspace"));
    return handle;
  }

  absl::StatusOr<std::vector<std::shared_ptr<const ProductCall>>> ListCalls(
      LibraryHandle& handle, const MatrixProduct& product) const override {
    std::vector<std::shared_ptr<const ProductCall>> calls;
    if (!cuda_type::FindNumber(product.type) || !cuda_type::FindNumber(product.out_type) ||
        !cuda_type::FindNumber(product.sum_type))
      return calls;
    auto problem = std::make_shared<LtProblem>(functions_, dialect_);
    RETURN_IF_ERROR(problem->Make(product));
    struct OwnedPreference {
      ~OwnedPreference() {
        if (preference != nullptr) (void)functions.preference_destroy(preference);
      }
      const Functions& functions;
      Preference preference = nullptr;
    } owned{functions_};
    RETURN_IF_ERROR(CheckLt(dialect_, functions_.preference_create(&owned.preference), "MatmulPreferenceCreate"));
    const auto set = [&](Enum attribute, const auto& value) {
      return CheckLt(dialect_, functions_.preference_set(owned.preference, attribute, &value, sizeof value),
                     "MatmulPreferenceSetAttribute");
    };
    RETURN_IF_ERROR(set(dialect_.preference_workspace_bytes, kWorkspaceBytes));
    if (dialect_.preference_reductions >= 0)
      RETURN_IF_ERROR(set(dialect_.preference_reductions, static_cast<uint32_t>(dialect_.reductions_in_compute_type)));
    for (Enum k = 0; dialect_.preference_alignment_a >= 0 && k < 4; ++k)
      RETURN_IF_ERROR(set(dialect_.preference_alignment_a + k, kOperandAlignment));
    const size_t bytes = ResultBytes(dialect_);
    alignas(8) std::array<char, (kMostAlgorithmBytes + 32) * kAlgorithms> results{};
    int returned = 0;
    // It returns a status for products that the library does not compute.
    const Enum status =
        functions_.get_heuristic(static_cast<LtHandle&>(handle).handle, problem->descriptor, problem->a, problem->b,
                                 problem->d, problem->d, owned.preference, kAlgorithms, results.data(), &returned);
    if (status != 0) return calls;
    for (int i = 0; i < std::min(returned, kAlgorithms); ++i) {
      const char* result = results.data() + static_cast<size_t>(i) * bytes;
      uint64_t workspace = 0;
      Enum state = 0;
      std::memcpy(&workspace, result + dialect_.algorithm_bytes, sizeof workspace);
      std::memcpy(&state, result + dialect_.algorithm_bytes + sizeof workspace, sizeof state);
      if (state == 0 && workspace <= kWorkspaceBytes)
        calls.push_back(std::make_shared<LtProduct>(functions_, dialect_, product, problem, result, i + 1));
    }
    return calls;
  }

 private:
  const HipApi api_;
  const Functions functions_;
  const Dialect& dialect_;
  const std::string name_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ProductLibrary>> Open(const HipApi& api, const VendorLibrary& library,
                                                           const std::string& architecture) {
  const Dialect* dialect = nullptr;
  for (const Dialect* d : {&kCublasLt, &kHipblasLt}) {
    if (dlsym(library.handle, absl::StrCat(d->prefix, "Create").c_str()) != nullptr) dialect = d;
  }
  if (dialect == nullptr) return absl::NotFoundError("it has no function of cuBLASLt or hipBLASLt");
  Functions functions;
  const std::string names[] = {
#define BACKPLANE_LT_NAME(member, suffix, parameters) absl::StrCat(dialect->prefix, suffix),
      BACKPLANE_LT_FUNCTIONS(BACKPLANE_LT_NAME)
#undef BACKPLANE_LT_NAME
  };
  void** const addresses[] = {
#define BACKPLANE_LT_ADDRESS(member, suffix, parameters) reinterpret_cast<void**>(&functions.member),
      BACKPLANE_LT_FUNCTIONS(BACKPLANE_LT_ADDRESS)
#undef BACKPLANE_LT_ADDRESS
  };
  std::vector<VendorSymbol> symbols;
  for (size_t i = 0; i < std::size(names); ++i) symbols.push_back({names[i].c_str(), addresses[i]});
  RETURN_IF_ERROR(FindVendorSymbols(library, symbols));
  RETURN_IF_ERROR(CheckSameRuntime(library, api));
  if (api.platform == Platform::kAmd &&
      !HasKernelFiles(FolderOfFunction(reinterpret_cast<const void*>(functions.create)), "hipblaslt",
                      "HIPBLASLT_TENSILE_LIBPATH", architecture))
    return absl::FailedPreconditionError(absl::StrCat("it has no kernels for ", architecture));
  return std::make_shared<LtLibrary>(api, functions, *dialect, library.name);
}

}  // namespace backplane::hip::lt
