// Matrix multiplication by oneDNN: primitives on packed weights, and its sgemm. Both with one thread inside, over row
// and column pieces that our pool hands out.
#include <algorithm>
#include <atomic>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "sdk/engine/kernels/bf16_products.h"
#include "sdk/engine/kernels/matmul_internal.h"
#include "sdk/engine/kernels/onednn_op.h"
#include "sdk/engine/kernels/simd_level.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {
namespace {

// How an output of m x n is cut, and the size of each piece.
struct Grid {
  int64_t rows, columns;          // pieces
  int64_t row_step, column_step;  // size of all but the last

  Grid(int64_t m, int64_t n, bool split, int threads, int64_t column_quantum, bool by_columns) {
    constexpr int64_t kRowsWorthAPiece = 64, kColumnsWorthAPiece = 64;
    rows = columns = 1;
    if (split && (n > m || by_columns)) {
      // Each piece reads its own part of the larger operand, and all of the smaller one.
      columns = std::clamp<int64_t>(n / (2 * kColumnsWorthAPiece), 1, 2 * threads);
      if (columns < threads) rows = std::clamp<int64_t>(m / kRowsWorthAPiece, 1, CeilDiv(2 * threads, columns));
    } else if (split) {
      rows = std::clamp<int64_t>(m / kRowsWorthAPiece, 1, 2 * threads);
      if (rows < threads) columns = std::clamp<int64_t>(n / kColumnsWorthAPiece, 1, CeilDiv(2 * threads, rows));
    }
    row_step = RoundUp(CeilDiv(m, rows), rows > 1 ? 16 : 1);
    rows = CeilDiv(m, row_step);
    column_step = RoundUp(CeilDiv(n, columns), columns > 1 ? column_quantum : 1);
    columns = CeilDiv(n, column_step);
  }
};

// Primitives on bytes pack the columns that they read in each execution, so pieces of rows would pack all of them.
bool PacksColumns(const MatmulProblem& p) { return ElementBytes(p.rhs_type) == 1 && p.n >= p.m; }

bool UnitStrideMatrix(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
  return (col_stride == 1 && (row_stride >= cols || rows == 1)) ||
         (row_stride == 1 && (col_stride >= rows || cols == 1));
}

// A stride that was never meant (extent 1) is replaced, because libraries check it.
int64_t Leading(int64_t stride, int64_t extent, int64_t other_extent) {
  return extent == 1 ? std::max<int64_t>(stride, other_extent) : stride;
}

template <typename Fn>
absl::Status ForEach(ThreadPool* pool, bool parallel, int64_t count, Fn fn) {
  if (pool == nullptr || !parallel || count == 1) {
    for (int64_t i = 0; i < count; ++i) {
      if (absl::Status s = fn(i, 0); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  std::atomic<bool> failed{false};
  Mutex mutex;
  absl::Status error;
  pool->ParallelFor(count, [&](int64_t i, int slot) {
    if (failed.load(std::memory_order_relaxed)) return;
    absl::Status s = fn(i, slot);
    if (s.ok()) return;
    MutexLock lock(mutex);
    if (!failed.exchange(true)) error = s;
  });
  return error;
}

class OneDnnMatmul : public MatmulPlan {
 public:
  OneDnnMatmul(const MatmulProblem& p, int num_threads, bool plain)
      : p_(p),
        plain_(plain),
        threads_(std::max(1, num_threads)),
        batches_(BatchCount(p)),
        parallel_(threads_ > 1 && p.m * p.n * p.k * batches_ >= kMultipliesWorthSplitting),
        whole_batches_(parallel_ && batches_ >= 2 * threads_),
        grid_(p.m, p.n, parallel_ && !whole_batches_, threads_, 64, PacksColumns(p)) {}

  absl::Status Init() {
    if (OneDnnEngine() == nullptr) return absl::InternalError("onednn has no cpu engine");
    OneDnnSingleThread single;
    // Packed right operands: one for each piece of columns, packed in parallel when there is more than one.
    std::vector<std::shared_ptr<const OneDnnOp>> ops;
    for (int column_tail = 0; column_tail < 2; ++column_tail) {
      const int64_t n = column_tail ? p_.n - (grid_.columns - 1) * grid_.column_step : grid_.column_step;
      absl::StatusOr<dnnl_data_type_t> type = OneDnnType(p_.rhs_type);
      if (!type.ok()) return type.status();
      absl::StatusOr<OneDnnDesc> source =
          OneDnnDesc::Strided({p_.k, n}, *type, {Leading(p_.rhs_k_stride, p_.k, n), Leading(p_.rhs_n_stride, n, p_.k)});
      if (!source.ok()) return source.status();
      OneDnnDesc packed = *source;
      for (int row_tail = 0; row_tail < 2; ++row_tail) {
        const int64_t m = row_tail ? p_.m - (grid_.rows - 1) * grid_.row_step : grid_.row_step;
        absl::StatusOr<std::shared_ptr<const OneDnnOp>> op = MakePiece(m, n, row_tail == 0 && !plain_, packed);
        if (!op.ok()) return op.status();
        ops.push_back(*std::move(op));
      }
      if (plain_) continue;
      absl::StatusOr<std::shared_ptr<const OneDnnOp>> reorder = OneDnnOp::MakeReorder(*source, packed);
      if (!reorder.ok()) return reorder.status();
      ops.push_back(*std::move(reorder));
      piece_bytes_ = std::max<int64_t>(piece_bytes_, RoundUp(static_cast<int64_t>(packed.bytes()), 64));
    }
    runner_ = std::make_unique<OneDnnRunner>(std::move(ops), threads_);
    const int64_t packed = p_.rhs_is_constant || plain_ ? 0 : piece_bytes_ * grid_.columns;
    shared_bytes_ = whole_batches_ ? 0 : packed;
    slot_bytes_ = (whole_batches_ ? packed : 0) + static_cast<int64_t>(runner_->scratch_bytes());
    return absl::OkStatus();
  }

  absl::string_view name() const override { return plain_ ? "onednn_plain" : "onednn_packed"; }
  size_t scratch_bytes() const override { return shared_bytes_ + slot_bytes_ * threads_; }
  size_t packed_rhs_bytes() const override {
    return p_.rhs_is_constant && !plain_ ? piece_bytes_ * grid_.columns * batches_ : 0;
  }

  absl::Status PrepareRhs(const void* rhs, void* packed) const override {
    if (packed_rhs_bytes() == 0) return absl::OkStatus();
    OneDnnRunner::Session session(runner_.get());
    std::vector<char> scratch(runner_->scratch_bytes() + 64);
    char* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    for (int64_t b = 0; b < batches_; ++b) {
      for (int64_t c = 0; c < grid_.columns; ++c) {
        char* piece = static_cast<char*>(packed) + (b * grid_.columns + c) * piece_bytes_;
        if (absl::Status s = Pack(session, 0, rhs, b, c, piece, aligned); !s.ok()) return s;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Execute(const void* lhs, const void* rhs, void* out, void* scratch, ThreadPool* pool,
                       const Epilogue* epilogue) const override {
    OneDnnRunner::Session session(runner_.get());
    char* shared = static_cast<char*>(scratch);
    char* slots = shared + shared_bytes_;
    const bool prepacked = packed_rhs_bytes() > 0;
    if (whole_batches_) {
      return ForEach(pool, parallel_, batches_, [&](int64_t b, int slot) -> absl::Status {
        char* mine = slots + slot * slot_bytes_;
        char* own_scratch = mine + slot_bytes_ - runner_->scratch_bytes();
        const char* piece = mine;
        if (prepacked) {
          piece = static_cast<const char*>(rhs) + b * piece_bytes_;
        } else if (plain_) {
          piece = At(rhs, ComputeBatchOffsets(p_, b).rhs, p_.rhs_type);
        } else if (absl::Status s = Pack(session, slot, rhs, b, 0, mine, own_scratch); !s.ok()) {
          return s;
        }
        if (absl::Status s = Multiply(session, slot, lhs, piece, out, b, 0, 0, own_scratch); !s.ok()) return s;
        if (epilogue != nullptr) epilogue->run(epilogue->context, b, 0, p_.m);
        return absl::OkStatus();
      });
    }
    for (int64_t b = 0; b < batches_; ++b) {
      const char* pieces = shared;
      if (prepacked) {
        pieces = static_cast<const char*>(rhs) + b * grid_.columns * piece_bytes_;
      } else if (plain_) {
        pieces = At(rhs, ComputeBatchOffsets(p_, b).rhs, p_.rhs_type);
      } else {
        absl::Status s = ForEach(pool, parallel_, grid_.columns, [&](int64_t c, int slot) {
          return Pack(session, slot, rhs, b, c, shared + c * piece_bytes_, slots + slot * slot_bytes_);
        });
        if (!s.ok()) return s;
      }
      const int64_t piece_step =
          plain_ ? grid_.column_step * p_.rhs_n_stride * static_cast<int64_t>(ElementBytes(p_.rhs_type)) : piece_bytes_;
      absl::Status s = ForEach(pool, parallel_, grid_.rows * grid_.columns, [&](int64_t i, int slot) -> absl::Status {
        const int64_t r = i / grid_.columns, c = i % grid_.columns;
        absl::Status status =
            Multiply(session, slot, lhs, pieces + c * piece_step, out, b, r, c, slots + slot * slot_bytes_);
        if (!status.ok()) return status;
        if (epilogue != nullptr && grid_.columns == 1) {
          epilogue->run(epilogue->context, b, r * grid_.row_step, std::min(p_.m, (r + 1) * grid_.row_step));
        }
        return absl::OkStatus();
      });
      if (!s.ok()) return s;
      if (epilogue != nullptr && grid_.columns > 1) epilogue->run(epilogue->context, b, 0, p_.m);
    }
    return absl::OkStatus();
  }

 private:
  // Makes the product of m rows and n columns. With `choose`, `weights` receives the layout that oneDNN prefers for the
  // right operand; otherwise it is the layout.
  absl::StatusOr<std::shared_ptr<const OneDnnOp>> MakePiece(int64_t m, int64_t n, bool choose, OneDnnDesc& weights) {
    absl::StatusOr<dnnl_data_type_t> lhs_type = OneDnnType(p_.lhs_type), rhs_type = OneDnnType(p_.rhs_type),
                                     out_type = OneDnnType(p_.out_type);
    for (const auto* t : {&lhs_type, &rhs_type, &out_type}) {
      if (!t->ok()) return t->status();
    }
    absl::StatusOr<OneDnnDesc> a = OneDnnDesc::Strided(
        {m, p_.k}, *lhs_type, {Leading(p_.lhs_m_stride, m, p_.k), Leading(p_.lhs_k_stride, p_.k, m)});
    absl::StatusOr<OneDnnDesc> b = choose ? OneDnnDesc::Any({p_.k, n}, *rhs_type) : absl::StatusOr<OneDnnDesc>(weights);
    absl::StatusOr<OneDnnDesc> c = OneDnnDesc::Strided({m, n}, *out_type, {Leading(p_.out_m_stride, m, n), 1});
    for (const auto* d : {&a, &b, &c}) {
      if (!d->ok()) return d->status();
    }
    OneDnnAttr attr;
    dnnl_primitive_desc_t raw = nullptr;
    absl::Status s = OneDnnStatus(
        dnnl_matmul_primitive_desc_create(&raw, OneDnnEngine(), a->get(), b->get(), nullptr, c->get(), attr.get()),
        "matmul primitive");
    if (!s.ok()) return s;
    OneDnnPrimitiveDesc desc(raw);
    if (absl::StrContains(desc.GetImplementation(), "ref")) {
      return absl::UnimplementedError(absl::StrCat("onednn would use ", desc.GetImplementation()));
    }
    if (choose) weights = desc.Query(dnnl_query_weights_md);
    return OneDnnOp::Make(desc, {{DNNL_ARG_SRC, *a}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, *c}});
  }

  // Ops: for whole columns [whole rows, last rows, reorder unless plain], then the same for the last columns.
  int OpIndex(int64_t r, int64_t c) const {
    return (c == grid_.columns - 1 ? (plain_ ? 2 : 3) : 0) + (r == grid_.rows - 1 ? 1 : 0);
  }

  absl::Status Pack(const OneDnnRunner::Session& session, int slot, const void* rhs, int64_t b, int64_t c, char* target,
                    void* scratch) const {
    const char* source = At(rhs, ComputeBatchOffsets(p_, b).rhs + c * grid_.column_step * p_.rhs_n_stride, p_.rhs_type);
    return session.Run(slot, c == grid_.columns - 1 ? 5 : 2, {source, target}, scratch);
  }

  absl::Status Multiply(const OneDnnRunner::Session& session, int slot, const void* lhs, const char* piece, void* out,
                        int64_t b, int64_t r, int64_t c, void* scratch) const {
    const BatchOffsets o = ComputeBatchOffsets(p_, b);
    return session.Run(slot, OpIndex(r, c),
                       {At(lhs, o.lhs + r * grid_.row_step * p_.lhs_m_stride, p_.lhs_type), piece,
                        At(out, o.out + r * grid_.row_step * p_.out_m_stride + c * grid_.column_step, p_.out_type)},
                       scratch);
  }

  const MatmulProblem p_;
  const bool plain_;  // the right operand is read where it lies
  const int threads_;
  const int64_t batches_;
  const bool parallel_, whole_batches_;
  const Grid grid_;
  std::unique_ptr<OneDnnRunner> runner_;
  int64_t piece_bytes_ = 0, shared_bytes_ = 0, slot_bytes_ = 0;
};

class OneDnnSgemm : public MatmulPlan {
 public:
  OneDnnSgemm(const MatmulProblem& p, int num_threads)
      : p_(p),
        threads_(std::max(1, num_threads)),
        batches_(BatchCount(p)),
        parallel_(threads_ > 1 && p.m * p.n * p.k * batches_ >= kMultipliesWorthSplitting),
        whole_batches_(parallel_ && batches_ >= 2 * threads_),
        grid_(p.m, p.n, parallel_ && !whole_batches_, threads_, 16, /*by_columns=*/false) {}

  absl::string_view name() const override { return "onednn_sgemm"; }
  size_t scratch_bytes() const override { return 0; }

  absl::Status Execute(const void* lhs, const void* rhs, void* out, void*, ThreadPool* pool,
                       const Epilogue* epilogue) const override {
    const char trans_a = p_.lhs_k_stride == 1 || p_.k == 1 ? 'N' : 'T';
    const char trans_b = p_.rhs_n_stride == 1 || p_.n == 1 ? 'N' : 'T';
    const int64_t lda = trans_a == 'N' ? Leading(p_.lhs_m_stride, p_.m, p_.k) : Leading(p_.lhs_k_stride, p_.k, p_.m);
    const int64_t ldb = trans_b == 'N' ? Leading(p_.rhs_k_stride, p_.k, p_.n) : Leading(p_.rhs_n_stride, p_.n, p_.k);
    const int64_t ldc = Leading(p_.out_m_stride, p_.m, p_.n);
    const int64_t pieces = grid_.rows * grid_.columns;
    absl::Status s = ForEach(pool, parallel_, batches_ * pieces, [&](int64_t i, int) -> absl::Status {
      const int64_t b = i / pieces, r = i % pieces / grid_.columns, c = i % grid_.columns;
      const BatchOffsets o = ComputeBatchOffsets(p_, b);
      const int64_t row = r * grid_.row_step, column = c * grid_.column_step;
      const int64_t m = std::min(p_.m - row, grid_.row_step), n = std::min(p_.n - column, grid_.column_step);
      const float* a = static_cast<const float*>(lhs) + o.lhs + row * p_.lhs_m_stride;
      const float* w = static_cast<const float*>(rhs) + o.rhs + column * p_.rhs_n_stride;
      float* y = static_cast<float*>(out) + o.out + row * p_.out_m_stride + column;
      OneDnnSingleThread single;
      const dnnl_status_t status = dnnl_sgemm(trans_a, trans_b, m, n, p_.k, 1.0f, a, lda, w, ldb, 0.0f, y, ldc);
      if (status != dnnl_success) return OneDnnStatus(status, "sgemm");
      if (epilogue != nullptr && grid_.columns == 1) epilogue->run(epilogue->context, b, row, row + m);
      return absl::OkStatus();
    });
    if (!s.ok()) return s;
    if (epilogue != nullptr && grid_.columns > 1) {
      for (int64_t b = 0; b < batches_; ++b) epilogue->run(epilogue->context, b, 0, p_.m);
    }
    return absl::OkStatus();
  }

 private:
  const MatmulProblem p_;
  const int threads_;
  const int64_t batches_;
  const bool parallel_, whole_batches_;
  const Grid grid_;
};

absl::Status CheckShapes(const MatmulProblem& p) {
  if (p.m == 0 || p.n == 0 || p.k == 0 || BatchCount(p) == 0) return absl::UnimplementedError("empty operand");
  if (!UnitStrideMatrix(p.m, p.k, p.lhs_m_stride, p.lhs_k_stride))
    return absl::UnimplementedError("lhs is contiguous in no dimension");
  if (!UnitStrideMatrix(p.k, p.n, p.rhs_k_stride, p.rhs_n_stride))
    return absl::UnimplementedError("rhs is contiguous in no dimension");
  if (p.n > 1 && p.out_n_stride != 1) return absl::UnimplementedError("result is not contiguous in its last dimension");
  if (p.m > 1 && p.out_m_stride < p.n) return absl::UnimplementedError("result rows overlap");
  return absl::OkStatus();
}

}  // namespace

namespace {

absl::StatusOr<std::unique_ptr<MatmulPlan>> MakePrimitive(const MatmulProblem& p, int num_threads, bool plain) {
  const bool f32 =
      p.lhs_type == ElementType::kF32 && p.rhs_type == ElementType::kF32 && p.out_type == ElementType::kF32;
  const bool bf16 = p.lhs_type == ElementType::kBF16 && p.rhs_type == ElementType::kBF16 &&
                    (p.out_type == ElementType::kBF16 || p.out_type == ElementType::kF32);
  const bool int8 = (p.lhs_type == ElementType::kS8 || p.lhs_type == ElementType::kU8) &&
                    p.rhs_type == ElementType::kS8 && p.out_type == ElementType::kS32;
  if (!f32 && !bf16 && !int8) {
    return absl::UnimplementedError(absl::StrCat("element types ", ElementTypeName(p.lhs_type), ", ",
                                                 ElementTypeName(p.rhs_type), " to ", ElementTypeName(p.out_type),
                                                 " are not supported"));
  }
  if (bf16 && !HasFastBf16Products()) return absl::UnimplementedError("this host has no fast bf16 instructions");
  // Without VNNI oneDNN goes through a multiply-add that saturates at 16 bits.
  if (int8 && (HostSimdLevel() < SimdLevel::kAvx512 || !__builtin_cpu_supports("avx512vnni"))) {
    return absl::UnimplementedError("this host has no exact int8 products");
  }
  if (absl::Status s = CheckShapes(p); !s.ok()) return s;
  auto plan = std::make_unique<OneDnnMatmul>(p, num_threads, plain);
  if (absl::Status s = plan->Init(); !s.ok()) return s;
  return std::unique_ptr<MatmulPlan>(std::move(plan));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeOneDnnMatmul(const MatmulProblem& p, int num_threads) {
  return MakePrimitive(p, num_threads, /*plain=*/false);
}

absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeOneDnnPlainMatmul(const MatmulProblem& p, int num_threads) {
  return MakePrimitive(p, num_threads, /*plain=*/true);
}

absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeOneDnnSgemm(const MatmulProblem& p, int num_threads) {
  if (p.lhs_type != ElementType::kF32 || p.rhs_type != ElementType::kF32 || p.out_type != ElementType::kF32) {
    return absl::UnimplementedError("only f32 is supported");
  }
  if (absl::Status s = CheckShapes(p); !s.ok()) return s;
  if (OneDnnEngine() == nullptr) return absl::InternalError("onednn has no cpu engine");
  return std::unique_ptr<MatmulPlan>(std::make_unique<OneDnnSgemm>(p, num_threads));
}

}  // namespace backplane::engine
