// Convolution by oneDNN, in the three forms the library has: forward, the gradient of the input (for a dilated input,
// that is transposed convolution) and the gradient of the kernel (for a window larger than the output). All three are
// one description: `src` and `dst` are activations, `weights` the small tensor, and one of the three is the result.
// Primitives run on one thread each, over pieces of batch, rows or channels.
#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "sdk/engine/kernels/bf16_products.h"
#include "sdk/engine/kernels/convolution_internal.h"
#include "sdk/engine/kernels/onednn_op.h"
#include "sdk/engine/kernels/simd_level.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {
namespace {

enum class Form { kForward, kBackwardData, kBackwardWeights };

struct Spatial {
  int64_t in = 1, kernel = 1, out = 1, stride = 1, dilation = 1, pad_low = 0, pad_high = 0;
};

// An operand: element type, offset of its first element, strides in elements.
struct Activation {
  ElementType type = ElementType::kF32;
  int64_t offset = 0, batch_stride = 0, channel_stride = 0;
  std::vector<int64_t> strides;
};

struct Problem {
  Form form = Form::kForward;
  int64_t batch = 1, in_channels = 1, out_channels = 1, groups = 1;
  std::vector<Spatial> dims;
  Activation src, dst;
  ElementType weights_type = ElementType::kF32;
  int64_t weights_out_stride = 0, weights_in_stride = 0;  // strides of output and input channels
  std::vector<int64_t> weights_strides;
  std::vector<bool> flip;  // dimensions in which the kernel must be turned round first
};

// A piece of the work: ranges of batch and, in the forward form, of output rows (the first spatial dimension).
// Channels are not divided: a slice of them is no layout that the library has fast code for.
struct Piece {
  int64_t batch = 0, batches = 1;
  int64_t row = 0, rows = 1;
  int64_t in_row = 0;  // first input row
  int op = 0;
};

template <typename Fn>
absl::Status ForEach(ThreadPool* pool, int64_t count, Fn fn) {
  if (pool == nullptr || count == 1) {
    for (int64_t i = 0; i < count; ++i) {
      if (absl::Status s = fn(i, 0); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  Mutex mutex;
  absl::Status error;
  pool->ParallelFor(count, [&](int64_t i, int slot) {
    absl::Status s = fn(i, slot);
    if (s.ok()) return;
    MutexLock lock(mutex);
    if (error.ok()) error = s;
  });
  return error;
}

int64_t Product(const std::vector<int64_t>& v) {
  return std::accumulate(v.begin(), v.end(), int64_t{1}, std::multiplies<int64_t>());
}

class OneDnnConvolution : public ConvolutionPlan {
 public:
  OneDnnConvolution(Problem problem, const ConvolutionProblem& original, int num_threads)
      : p_(std::move(problem)),
        out_batch_(OutputBatch(original)),
        threads_(std::max(1, num_threads)),
        constant_(original.rhs_is_constant && p_.form != Form::kBackwardWeights),
        same_rows_(!p_.dims.empty() && !original.dims.empty() && p_.batch == OutputBatch(original) &&
                   p_.dims[0].out == original.dims[0].output),
        split_(threads_ > 1 && CountMultiplies(original) >= kMultipliesWorthSplitting) {}

  absl::Status Init() {
    if (OneDnnEngine() == nullptr) return absl::InternalError("onednn has no cpu engine");
    OneDnnSingleThread single;
    plain_src_ = p_.src;
    plain_dst_ = p_.dst;
    absl::Status direct = absl::UnimplementedError("channels are not contiguous");
    const bool contiguous =
        (p_.src.channel_stride == 1 || p_.in_channels == 1) && (p_.dst.channel_stride == 1 || p_.out_channels == 1);
    if (contiguous) direct = Build();
    if (direct.ok()) return direct;
    // Through copies with the channels innermost.
    MakeDense(p_.src, p_.in_channels, [](const Spatial& d) { return d.in; });
    MakeDense(p_.dst, p_.out_channels, [](const Spatial& d) { return d.out; });
    copies_ = true;
    absl::Status s = Build();
    if (!s.ok()) return contiguous ? direct : s;
    return MakeCopies();
  }

  absl::string_view name() const override {
    switch (p_.form) {
      case Form::kForward:
        return "onednn_forward";
      case Form::kBackwardData:
        return "onednn_backward_data";
      case Form::kBackwardWeights:
        return "onednn_backward_weights";
    }
    return "onednn";
  }

  // [flipped kernel][packed kernel][dense src][dense dst][sums of the weights form, one a piece][per thread:
  // scratchpad]
  size_t scratch_bytes() const override {
    return flip_bytes_ + (constant_ ? 0 : packed_total_) + src_copy_bytes_ + dst_copy_bytes_ + sums_bytes_ +
           threads_ * slot_bytes_;
  }
  size_t packed_rhs_bytes() const override { return constant_ ? packed_total_ : 0; }
  // A single piece would leave the other threads without work.
  bool has_row_epilogue() const override {
    return p_.form == Form::kForward && !copies_ && same_rows_ && (!split_ || pieces_.size() > 1);
  }

  absl::Status PrepareRhs(const void* rhs, void* packed) const override {
    if (!constant_) return absl::OkStatus();
    OneDnnRunner::Session session(runner_.get());
    std::vector<char> own(flip_bytes_ + runner_->scratch_bytes() + 64);
    char* aligned = own.data() + (64 - reinterpret_cast<uintptr_t>(own.data()) % 64) % 64;
    return PackWeights(session, static_cast<const char*>(rhs), aligned, static_cast<char*>(packed),
                       aligned + flip_bytes_, 0, nullptr);
  }

  absl::Status Execute(const void* lhs, const void* rhs, void* out, void* scratch, ThreadPool* pool,
                       const Epilogue* epilogue) const override {
    OneDnnRunner::Session session(runner_.get());
    if (!split_) pool = nullptr;
    char* flipped = static_cast<char*>(scratch);
    char* packed = flipped + flip_bytes_;
    char* src_copy = packed + (constant_ ? 0 : packed_total_);
    char* dst_copy = src_copy + src_copy_bytes_;
    char* sums = dst_copy + dst_copy_bytes_;
    char* slots = sums + sums_bytes_;
    // Which of the caller's operands is what.
    const bool src_is_out = p_.form == Form::kBackwardData;
    const bool dst_is_out = p_.form == Form::kForward;
    const bool weights_are_out = p_.form == Form::kBackwardWeights;
    char* src = src_is_out ? static_cast<char*>(out) : static_cast<char*>(const_cast<void*>(lhs));
    char* dst =
        dst_is_out ? static_cast<char*>(out) : static_cast<char*>(const_cast<void*>(weights_are_out ? rhs : lhs));
    src += plain_src_.offset * Bytes(p_.src.type);
    dst += plain_dst_.offset * Bytes(p_.dst.type);
    char* const plain_src = src;
    char* const plain_dst = dst;
    if (copies_) {
      src = src_copy;
      dst = dst_copy;
      absl::Status s = ForEach(pool, p_.batch, [&](int64_t b, int slot) -> absl::Status {
        char* space = slots + slot * slot_bytes_;
        if (!src_is_out) {
          if (absl::Status e = CopyImage(session, slot, copy_src_op_, plain_src, plain_src_, src, p_.src, b, space);
              !e.ok())
            return e;
        }
        if (!dst_is_out) return CopyImage(session, slot, copy_dst_op_, plain_dst, plain_dst_, dst, p_.dst, b, space);
        return absl::OkStatus();
      });
      if (!s.ok()) return s;
    }
    const char* kernels = packed;
    if (!weights_are_out) {
      if (constant_) {
        kernels = static_cast<const char*>(rhs);
      } else if (absl::Status s =
                     PackWeights(session, static_cast<const char*>(rhs), flipped, packed, slots, slot_bytes_, pool);
                 !s.ok()) {
        return s;
      }
    }
    absl::Status s = ForEach(pool, static_cast<int64_t>(pieces_.size()), [&](int64_t i, int slot) -> absl::Status {
      const Piece& piece = pieces_[i];
      char* space = slots + slot * slot_bytes_;
      char* a = src + (piece.batch * p_.src.batch_stride) * Bytes(p_.src.type);
      char* c = dst + (piece.batch * p_.dst.batch_stride) * Bytes(p_.dst.type);
      switch (p_.form) {
        case Form::kForward:
          if (!p_.dims.empty()) {
            a += piece.in_row * p_.src.strides[0] * Bytes(p_.src.type);
            c += piece.row * p_.dst.strides[0] * Bytes(p_.dst.type);
          }
          if (absl::Status run = session.Run(slot, piece.op, {a, kernels, c}, space); !run.ok()) return run;
          for (int64_t b = 0; epilogue != nullptr && has_row_epilogue() && b < piece.batches; ++b)
            epilogue->run(epilogue->context, piece.batch + b, piece.row, piece.row + piece.rows);
          return absl::OkStatus();
        case Form::kBackwardData:
          return session.Run(slot, piece.op, {c, kernels, a}, space);
        case Form::kBackwardWeights:
          return session.Run(slot, piece.op, {a, c, sums + i * sum_bytes_}, space);
      }
      return absl::OkStatus();
    });
    if (!s.ok()) return s;
    if (weights_are_out) {
      if (pieces_.size() > 1) {
        const int64_t count = sum_bytes_ / static_cast<int64_t>(sizeof(float));
        constexpr int64_t kGrain = 16384;
        s = ForEach(pool, CeilDiv(count, kGrain), [&](int64_t i, int) {
          float* total = reinterpret_cast<float*>(sums);
          const int64_t end = std::min(count, (i + 1) * kGrain);
          for (size_t k = 1; k < pieces_.size(); ++k) {
            const float* part = reinterpret_cast<const float*>(sums + k * sum_bytes_);
            for (int64_t j = i * kGrain; j < end; ++j) total[j] += part[j];
          }
          return absl::OkStatus();
        });
        if (!s.ok()) return s;
      }
      s = ForEach(pool, static_cast<int64_t>(pack_ops_.size()), [&](int64_t i, int slot) {
        return session.Run(slot, pack_ops_[i].op,
                           {sums, static_cast<char*>(out) + pack_ops_[i].offset * Bytes(p_.weights_type)},
                           slots + slot * slot_bytes_);
      });
      if (!s.ok()) return s;
    }
    if (copies_ && !weights_are_out) {
      s = ForEach(pool, p_.batch, [&](int64_t b, int slot) {
        char* space = slots + slot * slot_bytes_;
        return src_is_out ? CopyImage(session, slot, copy_src_op_, src, p_.src, plain_src, plain_src_, b, space)
                          : CopyImage(session, slot, copy_dst_op_, dst, p_.dst, plain_dst, plain_dst_, b, space);
      });
      if (!s.ok()) return s;
    }
    if (epilogue != nullptr && !has_row_epilogue()) epilogue->run(epilogue->context, 0, 0, out_batch_);
    return absl::OkStatus();
  }

 private:
  static int64_t Bytes(ElementType t) { return static_cast<int64_t>(ElementBytes(t)); }

  template <typename Extent>
  void MakeDense(Activation& a, int64_t channels, Extent extent) {
    a.offset = 0;
    a.channel_stride = 1;
    int64_t stride = channels;
    for (int d = static_cast<int>(p_.dims.size()) - 1; d >= 0; --d) {
      a.strides[d] = stride;
      stride *= extent(p_.dims[d]);
    }
    a.batch_stride = stride;
  }

  // Descriptor of `batches` images of an activation with the given extents.
  absl::StatusOr<OneDnnDesc> Describe(const Activation& a, int64_t batches, int64_t channels,
                                      const std::vector<int64_t>& extents) const {
    absl::StatusOr<dnnl_data_type_t> type = OneDnnType(a.type);
    if (!type.ok()) return type.status();
    std::vector<int64_t> dims = {batches, channels}, strides = {a.batch_stride, a.channel_stride};
    int64_t largest = channels;
    for (size_t d = 0; d < extents.size(); ++d) {
      dims.push_back(extents[d]);
      strides.push_back(a.strides[d]);
      largest = std::max(largest, extents[d] * a.strides[d]);
    }
    // Strides of single elements do not matter to memory, but layouts are recognised by them.
    if (batches == 1) strides[0] = largest;
    if (channels == 1) strides[1] = 1;
    if (p_.dims.empty()) {  // no spatial dims: one of one element
      dims.push_back(1);
      strides.push_back(channels);
    }
    return OneDnnDesc::Strided(dims, *type, strides);
  }

  std::vector<int64_t> WeightDims() const {
    std::vector<int64_t> dims;
    if (p_.groups > 1)
      dims = {p_.groups, p_.out_channels / p_.groups, p_.in_channels / p_.groups};
    else
      dims = {p_.out_channels, p_.in_channels};
    for (const Spatial& d : p_.dims) dims.push_back(d.kernel);
    if (p_.dims.empty()) dims.push_back(1);
    return dims;
  }

  std::vector<int64_t> WeightStrides() const {
    std::vector<int64_t> strides = {w_out_, w_in_};
    if (p_.groups > 1) {
      // Groups count through that HLO dimension of which the kernel has all, not one group's.
      const bool through_in = p_.form == Form::kBackwardData;
      strides.insert(strides.begin(),
                     through_in ? p_.in_channels / p_.groups * w_in_ : p_.out_channels / p_.groups * w_out_);
    }
    for (int64_t s : w_strides_) strides.push_back(s);
    if (p_.dims.empty()) strides.push_back(1);
    return strides;
  }

  absl::Status Build() {
    ops_.clear();
    op_keys_.clear();
    pieces_.clear();
    pack_ops_.clear();
    packed_total_ = sum_bytes_ = sums_bytes_ = 0;
    flip_bytes_ = 0;
    w_out_ = p_.weights_out_stride;
    w_in_ = p_.weights_in_stride;
    w_strides_ = p_.weights_strides;
    if (std::find(p_.flip.begin(), p_.flip.end(), true) != p_.flip.end()) {
      // Turned round into a dense copy [output channel, input channel, spatial] in the order of the problem's roles.
      flip_strides_ = FlipStrides();
      int64_t count = p_.in_channels / p_.groups * p_.out_channels;
      for (const Spatial& d : p_.dims) count *= d.kernel;
      flip_bytes_ = RoundUp(count * Bytes(p_.weights_type), 64);
      w_strides_.assign(flip_strides_.begin() + 2, flip_strides_.end());
      w_out_ = flip_strides_[0];
      w_in_ = flip_strides_[1];
    }
    Cut();
    OneDnnDesc weights;  // the layout that the first primitive chooses, for all of them
    for (Piece& piece : pieces_) {
      absl::Status s = p_.form == Form::kBackwardWeights ? MakeWeightsPiece(piece, weights) : MakePiece(piece, weights);
      if (!s.ok()) return s;
    }
    const int64_t bytes = RoundUp(static_cast<int64_t>(weights.bytes()), 64);
    if (p_.form == Form::kBackwardWeights) {
      sum_bytes_ = bytes;
      sums_bytes_ = bytes * static_cast<int64_t>(pieces_.size());
    } else {
      packed_total_ = bytes;
    }
    if (absl::Status s = MakeReorders(weights); !s.ok()) return s;
    runner_ = std::make_unique<OneDnnRunner>(ops_, threads_);
    slot_bytes_ = static_cast<int64_t>(runner_->scratch_bytes());
    return absl::OkStatus();
  }

  // Divides the work among threads: batch first, then rows.
  void Cut() {
    const int64_t wanted = split_ ? 2 * threads_ : 1;
    auto steps = [](int64_t total, int64_t count, int64_t quantum) {
      count = std::clamp<int64_t>(count, 1, std::max<int64_t>(1, total / quantum));
      const int64_t step = RoundUp(CeilDiv(total, count), quantum);
      return std::pair<int64_t, int64_t>(CeilDiv(total, step), std::min(step, total));
    };
    if (p_.form == Form::kBackwardWeights) {
      // Each thread sums over its own images; the sums are added up afterwards, in a fixed order.
      auto [parts, part_step] = steps(p_.batch, split_ ? threads_ : 1, 1);
      for (int64_t b = 0; b < parts; ++b) {
        Piece piece;
        piece.batch = b * part_step;
        piece.batches = std::min(part_step, p_.batch - piece.batch);
        pieces_.push_back(piece);
      }
      return;
    }
    auto [batches, batch_step] = steps(p_.batch, wanted, 1);
    int64_t rows = 1, row_step = p_.dims.empty() ? 1 : p_.dims[0].out;
    if (p_.form == Form::kForward && !p_.dims.empty() && batches < threads_) {
      // Each piece reads the whole kernel, so few rows make few pieces.
      constexpr int64_t kRowsWorthAPiece = 4;
      const int64_t out = p_.dims[0].out, even = CeilDiv(threads_, batches);
      std::tie(rows, row_step) =
          steps(out, std::max(even, std::min(CeilDiv(wanted, batches), out / kRowsWorthAPiece)), 1);
    }
    for (int64_t b = 0; b < batches; ++b) {
      for (int64_t r = 0; r < rows; ++r) {
        Piece piece;
        piece.batch = b * batch_step;
        piece.batches = std::min(batch_step, p_.batch - piece.batch);
        piece.row = r * row_step;
        piece.rows = p_.dims.empty() ? 1 : std::min(row_step, p_.dims[0].out - piece.row);
        pieces_.push_back(piece);
      }
    }
  }

  struct Arrays {
    std::vector<int64_t> strides, dilations, pad_low, pad_high, in, out;
  };
  Arrays ArraysOf(const std::vector<Spatial>& dims) const {
    Arrays a;
    for (const Spatial& d : dims) {
      a.strides.push_back(d.stride);
      a.dilations.push_back(d.dilation - 1);
      a.pad_low.push_back(d.pad_low);
      a.pad_high.push_back(d.pad_high);
      a.in.push_back(d.in);
      a.out.push_back(d.out);
    }
    if (dims.empty()) {
      a.strides = {1};
      a.dilations = a.pad_low = a.pad_high = {0};
    }
    return a;
  }

  static absl::Status Reject(const OneDnnPrimitiveDesc& desc) {
    const std::string implementation = desc.GetImplementation();
    if (absl::StrContains(implementation, "ref") || absl::StrContains(implementation, "gemm")) {
      return absl::UnimplementedError(absl::StrCat("onednn would use ", implementation));
    }
    return absl::OkStatus();
  }

  absl::Status MakePiece(Piece& piece, OneDnnDesc& packed) {
    std::vector<Spatial> dims = p_.dims;
    if (p_.form == Form::kForward && !dims.empty() && piece.rows != dims[0].out) {
      // Only the input rows that these output rows see, with what is left of the padding.
      Spatial& d = dims[0];
      const int64_t reach = (d.kernel - 1) * d.dilation + 1;
      const int64_t first = piece.row * d.stride - d.pad_low,
                    last = (piece.row + piece.rows - 1) * d.stride - d.pad_low + reach;
      const int64_t begin = std::clamp<int64_t>(first, 0, d.in), end = std::clamp<int64_t>(last, 0, d.in);
      if (end <= begin) return absl::UnimplementedError("a row of windows lies in padding altogether");
      piece.in_row = begin;
      d.in = end - begin;
      d.out = piece.rows;
      d.pad_low = begin - first;
      d.pad_high = last - end;
    }
    const bool forward = p_.form == Form::kForward;
    Arrays a = ArraysOf(dims);
    std::string key = absl::StrCat(piece.batches);
    for (const Spatial& d : dims) absl::StrAppend(&key, "/", d.in, ",", d.out, ",", d.pad_low, ",", d.pad_high);
    auto [entry, fresh] = op_keys_.insert({key, static_cast<int>(ops_.size())});
    piece.op = entry->second;
    if (!fresh) return absl::OkStatus();

    absl::StatusOr<OneDnnDesc> src = Describe(p_.src, piece.batches, p_.in_channels, a.in);
    absl::StatusOr<OneDnnDesc> dst = Describe(p_.dst, piece.batches, p_.out_channels, a.out);
    absl::StatusOr<dnnl_data_type_t> weights_type = OneDnnType(p_.weights_type);
    for (const auto* d : {&src, &dst}) {
      if (!d->ok()) return d->status();
    }
    if (!weights_type.ok()) return weights_type.status();
    const bool choose = packed.get() == nullptr;
    absl::StatusOr<OneDnnDesc> weights =
        choose ? OneDnnDesc::Any(WeightDims(), *weights_type) : absl::StatusOr<OneDnnDesc>(packed);
    if (!weights.ok()) return weights.status();
    OneDnnAttr attr;
    dnnl_primitive_desc_t raw = nullptr;
    absl::Status s =
        OneDnnStatus(dnnl_convolution_forward_primitive_desc_create(
                         &raw, OneDnnEngine(), forward ? dnnl_forward_inference : dnnl_forward_training,
                         dnnl_convolution_direct, src->get(), weights->get(), nullptr, dst->get(), a.strides.data(),
                         a.dilations.data(), a.pad_low.data(), a.pad_high.data(), attr.get()),
                     "convolution primitive");
    if (!s.ok()) return s;
    OneDnnPrimitiveDesc fwd(raw);
    absl::StatusOr<std::shared_ptr<const OneDnnOp>> op;
    if (forward) {
      if (absl::Status r = Reject(fwd); !r.ok()) return r;
      packed = fwd.Query(dnnl_query_weights_md);
      op = OneDnnOp::Make(fwd, {{DNNL_ARG_SRC, *src}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, *dst}});
    } else {
      s = OneDnnStatus(
          dnnl_convolution_backward_data_primitive_desc_create(
              &raw, OneDnnEngine(), dnnl_convolution_direct, src->get(), weights->get(), dst->get(), a.strides.data(),
              a.dilations.data(), a.pad_low.data(), a.pad_high.data(), fwd.get(), attr.get()),
          "backward data primitive");
      if (!s.ok()) return s;
      OneDnnPrimitiveDesc bwd(raw);
      if (absl::Status r = Reject(bwd); !r.ok()) return r;
      packed = bwd.Query(dnnl_query_weights_md);
      op = OneDnnOp::Make(bwd, {{DNNL_ARG_DIFF_DST, *dst}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DIFF_SRC, *src}});
    }
    if (!op.ok()) return op.status();
    ops_.push_back(*std::move(op));
    return absl::OkStatus();
  }

  // Reorders between the kernel as it lies and as the primitives want it (for the weights form the way back), in
  // slices that can run at the same time where the layout lets itself be sliced.
  absl::Status MakeReorders(const OneDnnDesc& packed) {
    absl::StatusOr<dnnl_data_type_t> type = OneDnnType(p_.weights_type);
    if (!type.ok()) return type.status();
    const bool back = p_.form == Form::kBackwardWeights;
    const std::vector<int64_t> dims = WeightDims(), strides = WeightStrides();
    auto make = [&](const OneDnnDesc& plain, const OneDnnDesc& chosen) {
      return back ? OneDnnOp::MakeReorder(chosen, plain) : OneDnnOp::MakeReorder(plain, chosen);
    };
    constexpr int64_t kSlice = 64, kElementsWorthSlicing = 64 * 1024;
    if (split_ && dims[0] >= 2 * kSlice && Product(dims) >= kElementsWorthSlicing) {
      const size_t ops_before = ops_.size();
      std::vector<Reorder> found;
      bool good = true;
      const int64_t step = RoundUp(CeilDiv(dims[0], 2 * threads_), kSlice);
      for (int64_t begin = 0; begin < dims[0] && good; begin += step) {
        std::vector<int64_t> part = dims, offsets(dims.size(), 0);
        part[0] = std::min(step, dims[0] - begin);
        offsets[0] = begin;
        dnnl_memory_desc_t raw = nullptr;
        good = dnnl_memory_desc_create_submemory(&raw, packed.get(), part.data(), offsets.data()) == dnnl_success;
        if (!good) break;
        OneDnnDesc slice(raw);
        absl::StatusOr<OneDnnDesc> plain = OneDnnDesc::Strided(part, *type, strides);
        if (!plain.ok()) return plain.status();
        absl::StatusOr<std::shared_ptr<const OneDnnOp>> op = make(*plain, slice);
        good = op.ok() && !absl::StrContains((*op)->implementation(), "ref");
        if (!good) break;
        found.push_back({static_cast<int>(ops_.size()), begin * strides[0]});
        ops_.push_back(*std::move(op));
      }
      if (good) {
        pack_ops_ = std::move(found);
        return absl::OkStatus();
      }
      ops_.resize(ops_before);
    }
    absl::StatusOr<OneDnnDesc> plain = OneDnnDesc::Strided(dims, *type, strides);
    if (!plain.ok()) return plain.status();
    absl::StatusOr<std::shared_ptr<const OneDnnOp>> op = make(*plain, packed);
    if (!op.ok()) return op.status();
    pack_ops_.push_back({static_cast<int>(ops_.size()), 0});
    ops_.push_back(*std::move(op));
    return absl::OkStatus();
  }

  absl::Status MakeWeightsPiece(Piece& piece, OneDnnDesc& chosen) {
    auto [entry, fresh] = op_keys_.insert({absl::StrCat(piece.batches), static_cast<int>(ops_.size())});
    piece.op = entry->second;
    if (!fresh) return absl::OkStatus();
    Arrays a = ArraysOf(p_.dims);
    // Sums in f32 whatever the result: several are added up, and rounded once.
    const std::vector<int64_t> dims = WeightDims();
    const bool choose = chosen.get() == nullptr;
    absl::StatusOr<dnnl_data_type_t> hint_type = OneDnnType(p_.src.type);
    if (!hint_type.ok()) return hint_type.status();
    absl::StatusOr<OneDnnDesc> src = Describe(p_.src, piece.batches, p_.in_channels, a.in),
                               dst = Describe(p_.dst, piece.batches, p_.out_channels, a.out);
    absl::StatusOr<OneDnnDesc> weights = choose ? OneDnnDesc::Any(dims, dnnl_f32) : absl::StatusOr<OneDnnDesc>(chosen);
    absl::StatusOr<OneDnnDesc> hint_any = OneDnnDesc::Any(dims, *hint_type);
    for (const auto* d : {&src, &dst, &weights, &hint_any}) {
      if (!d->ok()) return d->status();
    }
    OneDnnAttr attr;
    dnnl_primitive_desc_t raw = nullptr;
    absl::Status s = OneDnnStatus(
        dnnl_convolution_forward_primitive_desc_create(
            &raw, OneDnnEngine(), dnnl_forward_training, dnnl_convolution_direct, src->get(), hint_any->get(), nullptr,
            dst->get(), a.strides.data(), a.dilations.data(), a.pad_low.data(), a.pad_high.data(), attr.get()),
        "convolution primitive");
    if (!s.ok()) return s;
    OneDnnPrimitiveDesc hint(raw);
    s = OneDnnStatus(
        dnnl_convolution_backward_weights_primitive_desc_create(
            &raw, OneDnnEngine(), dnnl_convolution_direct, src->get(), weights->get(), nullptr, dst->get(),
            a.strides.data(), a.dilations.data(), a.pad_low.data(), a.pad_high.data(), hint.get(), attr.get()),
        "backward weights primitive");
    if (!s.ok()) return s;
    OneDnnPrimitiveDesc desc(raw);
    if (absl::Status r = Reject(desc); !r.ok()) return r;
    if (choose) chosen = desc.Query(dnnl_query_diff_weights_md);
    absl::StatusOr<std::shared_ptr<const OneDnnOp>> op =
        OneDnnOp::Make(desc, {{DNNL_ARG_SRC, *src}, {DNNL_ARG_DIFF_DST, *dst}, {DNNL_ARG_DIFF_WEIGHTS, chosen}});
    if (!op.ok()) return op.status();
    ops_.push_back(*std::move(op));
    return absl::OkStatus();
  }

  // Reorders between the caller's layout and the dense one, an image at a time.
  absl::Status MakeCopies() {
    std::vector<int64_t> in, out;
    for (const Spatial& d : p_.dims) {
      in.push_back(d.in);
      out.push_back(d.out);
    }
    const bool src_is_out = p_.form == Form::kBackwardData, dst_is_out = p_.form == Form::kForward;
    auto make = [&](const Activation& plain, const Activation& dense, int64_t channels,
                    const std::vector<int64_t>& extents, bool back, int& index) -> absl::Status {
      absl::StatusOr<OneDnnDesc> a = Describe(plain, 1, channels, extents), b = Describe(dense, 1, channels, extents);
      if (!a.ok()) return a.status();
      if (!b.ok()) return b.status();
      absl::StatusOr<std::shared_ptr<const OneDnnOp>> op =
          back ? OneDnnOp::MakeReorder(*b, *a) : OneDnnOp::MakeReorder(*a, *b);
      if (!op.ok()) return op.status();
      index = static_cast<int>(ops_.size());
      ops_.push_back(*std::move(op));
      return absl::OkStatus();
    };
    if (absl::Status s = make(plain_src_, p_.src, p_.in_channels, in, src_is_out, copy_src_op_); !s.ok()) return s;
    if (absl::Status s = make(plain_dst_, p_.dst, p_.out_channels, out, dst_is_out, copy_dst_op_); !s.ok()) return s;
    src_copy_bytes_ = RoundUp(p_.batch * p_.src.batch_stride * Bytes(p_.src.type), 64) + 64;
    dst_copy_bytes_ = RoundUp(p_.batch * p_.dst.batch_stride * Bytes(p_.dst.type), 64) + 64;
    runner_ = std::make_unique<OneDnnRunner>(ops_, threads_);
    slot_bytes_ = static_cast<int64_t>(runner_->scratch_bytes());
    return absl::OkStatus();
  }

  absl::Status CopyImage(const OneDnnRunner::Session& session, int slot, int op, const char* from,
                         const Activation& from_layout, char* to, const Activation& to_layout, int64_t b,
                         void* space) const {
    return session.Run(slot, op,
                       {from + b * from_layout.batch_stride * Bytes(from_layout.type),
                        to + b * to_layout.batch_stride * Bytes(to_layout.type)},
                       space);
  }

  std::vector<int64_t> FlipStrides() const {
    // Dense [HLO output feature][HLO input feature][spatial], whichever of the channel kinds those are here.
    int64_t spatial = 1;
    std::vector<int64_t> s(2 + p_.dims.size());
    for (int d = static_cast<int>(p_.dims.size()) - 1; d >= 0; --d) {
      s[2 + d] = spatial;
      spatial *= p_.dims[d].kernel;
    }
    if (p_.form == Form::kBackwardData) {
      s[0] = spatial;                                  // "output channels" are the HLO kernel's inputs
      s[1] = spatial * (p_.out_channels / p_.groups);  // and the other way round
    } else {
      s[0] = spatial * (p_.in_channels / p_.groups);
      s[1] = spatial;
    }
    return s;
  }

  void Flip(const char* rhs, char* flipped, ThreadPool* pool) const {
    const int64_t bytes = Bytes(p_.weights_type);
    const int rank = static_cast<int>(p_.dims.size());
    // Both counts as the HLO kernel has them: of the larger kind all, of the other one group's.
    const bool data = p_.form == Form::kBackwardData;
    const int64_t outs = data ? p_.out_channels / p_.groups : p_.out_channels,
                  ins = data ? p_.in_channels : p_.in_channels / p_.groups;
    int64_t taps = 1;
    for (const Spatial& d : p_.dims) taps *= d.kernel;
    (void)ForEach(pool, outs, [&](int64_t o, int) {
      for (int64_t i = 0; i < ins; ++i) {
        for (int64_t t = 0; t < taps; ++t) {
          int64_t rest = t, from = o * p_.weights_out_stride + i * p_.weights_in_stride,
                  to = o * flip_strides_[0] + i * flip_strides_[1];
          for (int d = rank - 1; d >= 0; --d) {
            const int64_t k = rest % p_.dims[d].kernel;
            rest /= p_.dims[d].kernel;
            from += (p_.flip[d] ? p_.dims[d].kernel - 1 - k : k) * p_.weights_strides[d];
            to += k * flip_strides_[2 + d];
          }
          std::memcpy(flipped + to * bytes, rhs + from * bytes, bytes);
        }
      }
      return absl::OkStatus();
    });
  }

  absl::Status PackWeights(const OneDnnRunner::Session& session, const char* rhs, char* flipped, char* packed,
                           char* slots, int64_t slot_bytes, ThreadPool* pool) const {
    const char* source = rhs;
    if (flip_bytes_ > 0) {
      Flip(rhs, flipped, pool);
      source = flipped;
    }
    return ForEach(pool, static_cast<int64_t>(pack_ops_.size()), [&](int64_t i, int slot) {
      return session.Run(slot, pack_ops_[i].op, {source + pack_ops_[i].offset * Bytes(p_.weights_type), packed},
                         slots + slot * slot_bytes);
    });
  }

  struct Reorder {
    int op;
    int64_t offset;  // of the slice in the plain kernel, in elements
  };

  Problem p_;
  const int64_t out_batch_;
  const int threads_;
  const bool constant_;
  const bool same_rows_;  // the first spatial dimension is that of the problem
  const bool split_;
  bool copies_ = false;
  Activation plain_src_, plain_dst_;
  int64_t w_out_ = 0, w_in_ = 0;
  std::vector<int64_t> w_strides_, flip_strides_;
  std::vector<Piece> pieces_;
  std::vector<std::shared_ptr<const OneDnnOp>> ops_;
  std::map<std::string, int> op_keys_;
  std::vector<Reorder> pack_ops_;
  int copy_src_op_ = -1, copy_dst_op_ = -1;
  int64_t packed_total_ = 0, flip_bytes_ = 0, src_copy_bytes_ = 0, dst_copy_bytes_ = 0, slot_bytes_ = 0;
  int64_t sum_bytes_ = 0, sums_bytes_ = 0;
  std::unique_ptr<OneDnnRunner> runner_;
};

absl::Status CheckTypes(const ConvolutionProblem& p) {
  const bool f32 =
      p.lhs_type == ElementType::kF32 && p.rhs_type == ElementType::kF32 && p.out_type == ElementType::kF32;
  const bool bf16 = p.lhs_type == ElementType::kBF16 && p.rhs_type == ElementType::kBF16 &&
                    (p.out_type == ElementType::kBF16 || p.out_type == ElementType::kF32);
  if (!f32 && !bf16) {
    return absl::UnimplementedError(absl::StrCat("element types ", ElementTypeName(p.lhs_type), ", ",
                                                 ElementTypeName(p.rhs_type), " to ", ElementTypeName(p.out_type),
                                                 " are not supported"));
  }
  if (bf16 && !HasFastBf16Products()) return absl::UnimplementedError("this host has no fast bf16 instructions");
  if (p.dims.size() > 3) return absl::UnimplementedError(absl::StrCat(p.dims.size(), " spatial dims"));
  if (CountMultiplies(p) == 0) return absl::UnimplementedError("empty operand");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> Finish(Problem problem, const ConvolutionProblem& original,
                                                        int num_threads) {
  auto plan = std::make_unique<OneDnnConvolution>(std::move(problem), original, num_threads);
  if (absl::Status s = plan->Init(); !s.ok()) return s;
  return std::unique_ptr<ConvolutionPlan>(std::move(plan));
}

// Negative padding of an input is a smaller input.
void Crop(Spatial& d, Activation& a, int64_t stride) {
  if (d.pad_low < 0) {
    a.offset += -d.pad_low * stride;
    d.in += d.pad_low;
    d.pad_low = 0;
  }
  if (d.pad_high < 0) {
    d.in += d.pad_high;
    d.pad_high = 0;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakeOneDnnForward(const ConvolutionProblem& p, int num_threads) {
  if (absl::Status s = CheckTypes(p); !s.ok()) return s;
  if (p.batch_groups > 1) return absl::UnimplementedError("batch groups are done one by one");
  Problem q;
  q.form = Form::kForward;
  q.batch = p.batch;
  q.in_channels = p.in_features;
  q.out_channels = p.out_features;
  q.groups = p.feature_groups;
  q.src = {p.lhs_type, 0, p.lhs_batch_stride, p.lhs_feature_stride, {}};
  q.dst = {p.out_type, 0, p.out_batch_stride, p.out_feature_stride, {}};
  q.weights_type = p.rhs_type;
  q.weights_out_stride = p.rhs_out_stride;
  q.weights_in_stride = p.rhs_in_stride;
  for (const ConvolutionDim& d : p.dims) {
    if (d.lhs_dilation != 1) return absl::UnimplementedError("the input is dilated");
    Spatial s{d.input, d.kernel, d.output, d.stride, d.rhs_dilation, d.pad_low, d.pad_high};
    Crop(s, q.src, d.lhs_stride);
    if (s.in <= 0) return absl::UnimplementedError("nothing is left of the input");
    q.dims.push_back(s);
    q.src.strides.push_back(d.lhs_stride);
    q.dst.strides.push_back(d.out_stride);
    q.weights_strides.push_back(d.rhs_stride);
    q.flip.push_back(d.reversed && d.kernel > 1);
  }
  return Finish(std::move(q), p, num_threads);
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakeOneDnnBackwardData(const ConvolutionProblem& p, int num_threads) {
  if (absl::Status s = CheckTypes(p); !s.ok()) return s;
  if (p.batch_groups > 1) return absl::UnimplementedError("batch groups are done one by one");
  Problem q;
  q.form = Form::kBackwardData;
  q.batch = p.batch;
  q.in_channels = p.out_features;
  q.out_channels = p.in_features;
  q.groups = p.feature_groups;
  q.src = {p.out_type, 0, p.out_batch_stride, p.out_feature_stride, {}};
  q.dst = {p.lhs_type, 0, p.lhs_batch_stride, p.lhs_feature_stride, {}};
  q.weights_type = p.rhs_type;
  q.weights_out_stride = p.rhs_in_stride;
  q.weights_in_stride = p.rhs_out_stride;
  bool dilated = false;
  for (const ConvolutionDim& d : p.dims) {
    if (d.stride != 1) return absl::UnimplementedError("the window moves by more than one");
    dilated |= d.lhs_dilation > 1;
    Spatial s{d.output, d.kernel, d.input, d.lhs_dilation, d.rhs_dilation, (d.kernel - 1) * d.rhs_dilation - d.pad_low,
              0};
    if (s.pad_low < 0) return absl::UnimplementedError("low padding is wider than the window");
    // Exactly as much high padding as reaches the last input; up to stride - 1 more makes no difference.
    s.pad_high = (s.out - 1) * s.stride + (s.kernel - 1) * s.dilation + 1 - s.in - s.pad_low;
    if (s.pad_high < 0) s.pad_high = std::min<int64_t>(0, s.pad_high + s.stride - 1);
    if (s.pad_high < 0) return absl::UnimplementedError("high padding is wider than the window");
    q.dims.push_back(s);
    q.src.strides.push_back(d.out_stride);
    q.dst.strides.push_back(d.lhs_stride);
    q.weights_strides.push_back(d.rhs_stride);
    q.flip.push_back(!d.reversed && d.kernel > 1);
  }
  if (!dilated) return absl::UnimplementedError("the input is not dilated");
  return Finish(std::move(q), p, num_threads);
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakeOneDnnBackwardWeights(const ConvolutionProblem& p,
                                                                           int num_threads) {
  if (absl::Status s = CheckTypes(p); !s.ok()) return s;
  if (p.feature_groups > 1) return absl::UnimplementedError("feature groups");
  Problem q;
  q.form = Form::kBackwardWeights;
  q.batch = p.in_features;
  q.in_channels = p.batch;
  q.out_channels = p.out_features;
  q.groups = p.batch_groups;
  q.src = {p.lhs_type, 0, p.lhs_feature_stride, p.lhs_batch_stride, {}};
  q.dst = {p.rhs_type, 0, p.rhs_in_stride, p.rhs_out_stride, {}};
  q.weights_type = p.out_type;
  q.weights_out_stride = p.out_feature_stride;
  q.weights_in_stride = p.out_batch_stride;
  for (const ConvolutionDim& d : p.dims) {
    if (d.lhs_dilation != 1) return absl::UnimplementedError("the input is dilated");
    if (d.reversed && d.kernel > 1) return absl::UnimplementedError("the window is reversed");
    Spatial s{d.input, d.output, d.kernel, d.rhs_dilation, d.stride, d.pad_low, d.pad_high};
    Crop(s, q.src, d.lhs_stride);
    // High padding so that the last output sees the end; input beyond that is not seen at all.
    s.pad_high = (s.out - 1) * s.stride + (s.kernel - 1) * s.dilation + 1 - s.in - s.pad_low;
    if (s.pad_high < 0) {
      s.in += s.pad_high;
      s.pad_high = 0;
    }
    if (s.in <= 0) return absl::UnimplementedError("nothing is left of the input");
    // oneDNN 3.2 gives wrong values then, and writes past its memory: its bf16 kernels, and those of three dimensions.
    if ((s.kernel - 1) * s.dilation + 1 > s.in) return absl::UnimplementedError("the window is larger than the input");
    q.dims.push_back(s);
    q.src.strides.push_back(d.lhs_stride);
    q.dst.strides.push_back(d.rhs_stride);
    q.weights_strides.push_back(d.out_stride);
    q.flip.push_back(false);
  }
  return Finish(std::move(q), p, num_threads);
}

}  // namespace backplane::engine
