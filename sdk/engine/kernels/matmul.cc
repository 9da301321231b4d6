#include "sdk/engine/kernels/matmul.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/engine/kernels/matmul_internal.h"
#include "sdk/engine/kernels/scalar_access.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {
namespace {

// The definition, one element at a time. Accepts every combination of types.
class ReferenceMatmul : public MatmulPlan {
 public:
  explicit ReferenceMatmul(const MatmulProblem& p) : p_(p) {}
  absl::string_view name() const override { return "reference"; }
  size_t scratch_bytes() const override { return 0; }

  absl::Status Execute(const void* lhs, const void* rhs, void* out, void*, ThreadPool* pool,
                       const Epilogue* epilogue) const override {
    const bool complex = IsComplex(p_.lhs_type) || IsComplex(p_.rhs_type) || IsComplex(p_.out_type);
    const bool real = IsFloat(p_.lhs_type) || IsFloat(p_.rhs_type) || IsFloat(p_.out_type);
    const int64_t batches = BatchCount(p_);
    auto row = [&](int64_t index, int) {
      const int64_t b = index / p_.m, i = index % p_.m;
      if (complex) {
        Row<std::complex<double>>(b, i, lhs, rhs, out);
      } else if (real) {
        Row<double>(b, i, lhs, rhs, out);
      } else {
        Row<uint64_t>(b, i, lhs, rhs, out);  // wraps; the low bits are the same for every signedness
      }
    };
    if (pool != nullptr) {
      pool->ParallelFor(batches * p_.m, row);
    } else {
      for (int64_t i = 0; i < batches * p_.m; ++i) row(i, 0);
    }
    if (epilogue != nullptr) {
      for (int64_t b = 0; b < batches; ++b) epilogue->run(epilogue->context, b, 0, p_.m);
    }
    return absl::OkStatus();
  }

 private:
  template <typename T>
  void Row(int64_t b, int64_t i, const void* lhs, const void* rhs, void* out) const {
    const BatchOffsets o = ComputeBatchOffsets(p_, b);
    for (int64_t j = 0; j < p_.n; ++j) {
      T sum{};
      for (int64_t q = 0; q < p_.k; ++q) {
        sum += LoadScalar<T>(lhs, o.lhs + i * p_.lhs_m_stride + q * p_.lhs_k_stride, p_.lhs_type) *
               LoadScalar<T>(rhs, o.rhs + q * p_.rhs_k_stride + j * p_.rhs_n_stride, p_.rhs_type);
      }
      StoreScalar<T>(out, o.out + i * p_.out_m_stride + j * p_.out_n_stride, p_.out_type, sum);
    }
  }

  const MatmulProblem p_;
};

// A problem whose batch dimensions became rows. Only the epilogue can tell.
class MergedMatmul : public MatmulPlan {
 public:
  MergedMatmul(std::unique_ptr<MatmulPlan> inner, int64_t rows, int64_t merged)
      : inner_(std::move(inner)), rows_(rows), merged_(merged) {}
  absl::string_view name() const override { return inner_->name(); }
  size_t scratch_bytes() const override { return inner_->scratch_bytes(); }
  size_t packed_rhs_bytes() const override { return inner_->packed_rhs_bytes(); }
  absl::Status PrepareRhs(const void* rhs, void* packed) const override { return inner_->PrepareRhs(rhs, packed); }
  absl::Status Execute(const void* lhs, const void* rhs, void* out, void* scratch, ThreadPool* pool,
                       const Epilogue* epilogue) const override {
    if (epilogue == nullptr) return inner_->Execute(lhs, rhs, out, scratch, pool, nullptr);
    struct Context {
      const MergedMatmul* plan;
      const Epilogue* epilogue;
    } context{this, epilogue};
    Epilogue split;
    split.context = &context;
    split.run = [](void* c, int64_t batch, int64_t begin, int64_t end) {
      const Context& x = *static_cast<Context*>(c);
      const int64_t rows = x.plan->rows_;
      while (begin < end) {
        const int64_t b = begin / rows, stop = std::min(end, (b + 1) * rows);
        x.epilogue->run(x.epilogue->context, batch * x.plan->merged_ + b, begin - b * rows, stop - b * rows);
        begin = stop;
      }
    };
    return inner_->Execute(lhs, rhs, out, scratch, pool, &split);
  }

 private:
  std::unique_ptr<MatmulPlan> inner_;
  const int64_t rows_, merged_;
};

absl::Status Validate(const MatmulProblem& p) {
  if (p.m < 0 || p.n < 0 || p.k < 0)
    return absl::InvalidArgumentError(absl::StrCat("matmul ", p.ToString(), ": a size is negative"));
  if (p.lhs_batch_strides.size() != p.batch.size() || p.rhs_batch_strides.size() != p.batch.size() ||
      p.out_batch_strides.size() != p.batch.size()) {
    return absl::InvalidArgumentError(absl::StrCat("matmul ", p.ToString(), ": ", p.batch.size(), " batch dims but ",
                                                   p.lhs_batch_strides.size(), ", ", p.rhs_batch_strides.size(), ", ",
                                                   p.out_batch_strides.size(), " batch strides"));
  }
  for (int64_t b : p.batch) {
    if (b < 0) return absl::InvalidArgumentError(absl::StrCat("matmul ", p.ToString(), ": a batch size is negative"));
  }
  return absl::OkStatus();
}

// Drops batch dims of one element and joins neighbours that lie evenly in memory.
void SimplifyBatch(MatmulProblem& p) {
  MatmulProblem q = p;
  q.batch.clear();
  q.lhs_batch_strides.clear();
  q.rhs_batch_strides.clear();
  q.out_batch_strides.clear();
  for (size_t d = 0; d < p.batch.size(); ++d) {
    if (p.batch[d] == 1) continue;
    const int64_t n = p.batch[d];
    if (!q.batch.empty() && q.lhs_batch_strides.back() == n * p.lhs_batch_strides[d] &&
        q.rhs_batch_strides.back() == n * p.rhs_batch_strides[d] &&
        q.out_batch_strides.back() == n * p.out_batch_strides[d]) {
      q.batch.back() *= n;
      q.lhs_batch_strides.back() = p.lhs_batch_strides[d];
      q.rhs_batch_strides.back() = p.rhs_batch_strides[d];
      q.out_batch_strides.back() = p.out_batch_strides[d];
      continue;
    }
    q.batch.push_back(n);
    q.lhs_batch_strides.push_back(p.lhs_batch_strides[d]);
    q.rhs_batch_strides.push_back(p.rhs_batch_strides[d]);
    q.out_batch_strides.push_back(p.out_batch_strides[d]);
  }
  p = std::move(q);
}

// The innermost batch dim shares one right operand and continues the rows: it is rows.
bool MergeBatchIntoRows(MatmulProblem& p) {
  if (p.batch.empty() || p.rhs_batch_strides.back() != 0) return false;
  if (p.lhs_batch_strides.back() != p.m * p.lhs_m_stride || p.out_batch_strides.back() != p.m * p.out_m_stride)
    return false;
  p.m *= p.batch.back();
  p.batch.pop_back();
  p.lhs_batch_strides.pop_back();
  p.rhs_batch_strides.pop_back();
  p.out_batch_strides.pop_back();
  return true;
}

struct MatmulCandidate {
  const char* name;
  MatmulFactory make;
};

// Fastest first, as measured for each kind of shape.
std::vector<MatmulCandidate> RankCandidates(const MatmulProblem& p) {
  const MatmulCandidate small_complex{"small_complex", &MakeSmallComplexMatmul}, gemv{"gemv", &MakeGemvMatmul},
      small{"small", &MakeSmallMatmul}, packed{"onednn_packed", &MakeOneDnnMatmul},
      plain{"onednn_plain", &MakeOneDnnPlainMatmul}, sgemm{"onednn_sgemm", &MakeOneDnnSgemm},
      panels{"panels", &MakePanelMatmul}, blocked{"blocked", &MakeBlockedMatmul},
      reference{"reference", &MakeReferenceMatmul};
  // A primitive on weights where they lie suits small ones and types other than f32; sgemm, which packs a few columns
  // at a time, does not suffer from rows that are far apart. Packed weights win when packing happens once.
  constexpr int64_t kSmallWeights = 64 * 1024;
  const bool small_weights = p.lhs_type != ElementType::kF32 || p.n * p.k <= kSmallWeights;
  std::vector<MatmulCandidate> ranked = {gemv, small, sgemm, plain, packed, panels, blocked, reference};
  if (small_weights) ranked = {gemv, small, plain, sgemm, packed, panels, blocked, reference};
  if (p.rhs_is_constant) ranked = {gemv, small, packed, plain, sgemm, panels, blocked, reference};
  if (IsComplex(p.lhs_type)) ranked.insert(ranked.begin(), small_complex);
  return ranked;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeReferenceMatmul(const MatmulProblem& problem, int) {
  return std::unique_ptr<MatmulPlan>(std::make_unique<ReferenceMatmul>(problem));
}

absl::Status MatmulPlan::PrepareRhs(const void*, void*) const { return absl::OkStatus(); }

MatmulProblem MatmulProblem::Dense(ElementType type, int64_t m, int64_t n, int64_t k, bool transpose_lhs,
                                   bool transpose_rhs) {
  MatmulProblem p;
  p.lhs_type = p.rhs_type = p.out_type = type;
  p.m = m;
  p.n = n;
  p.k = k;
  p.lhs_m_stride = transpose_lhs ? 1 : k;
  p.lhs_k_stride = transpose_lhs ? m : 1;
  p.rhs_k_stride = transpose_rhs ? 1 : n;
  p.rhs_n_stride = transpose_rhs ? k : 1;
  p.out_m_stride = n;
  p.out_n_stride = 1;
  return p;
}

std::string MatmulProblem::ToString() const {
  std::string prefix = batch.empty() ? "" : absl::StrCat(absl::StrJoin(batch, ","), ",");
  return absl::StrCat(ElementTypeName(lhs_type), "[", prefix, m, ",", k, "] x ", ElementTypeName(rhs_type), "[", prefix,
                      k, ",", n, "] -> ", ElementTypeName(out_type));
}

absl::StatusOr<std::unique_ptr<MatmulPlan>> PlanMatmul(const MatmulProblem& problem, const MatmulOptions& options,
                                                       RefusalLog* log) {
  if (absl::Status s = Validate(problem); !s.ok()) return s;
  MatmulProblem p = problem;
  SimplifyBatch(p);
  const int64_t rows = p.m;
  const bool merged = MergeBatchIntoRows(p);
  for (const MatmulCandidate& candidate : RankCandidates(p)) {
    if (!options.only.empty() && options.only != candidate.name) continue;
    absl::StatusOr<std::unique_ptr<MatmulPlan>> plan = candidate.make(p, options.num_threads);
    if (plan.ok()) {
      if (!merged) return plan;
      return std::unique_ptr<MatmulPlan>(
          std::make_unique<MergedMatmul>(*std::move(plan), rows, rows == 0 ? 1 : p.m / rows));
    }
    if (plan.status().code() != absl::StatusCode::kUnimplemented) return plan.status();
    if (log != nullptr) log->push_back(absl::StrCat(candidate.name, ": ", plan.status().message()));
  }
  return absl::UnimplementedError(
      absl::StrCat("matmul ", problem.ToString(), ": no kernel named ", options.only, " takes it"));
}

}  // namespace backplane::engine
