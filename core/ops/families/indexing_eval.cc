// Evaluation of dynamic slices, gather and scatter.
#include "core/ops/families/elements.h"
#include "core/types/literal_convert.h"

namespace backplane {
namespace {

// Start indices as signed numbers. Unsigned ones beyond the signed range become larger than every bound.
std::vector<int64_t> ReadIndices(const Literal& x) {
  std::vector<int64_t> out(static_cast<size_t>(x.num_elements()));
  const PrimitiveType t = x.shape().element_type();
  if (t == PrimitiveType::kU64) {
    const auto data = x.data<uint64_t>();
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<int64_t>(std::min<uint64_t>(data[i], std::numeric_limits<int64_t>::max()));
    }
  } else {
    ReadElements(t, x.bytes(), 0, x.num_elements(), out.data());
  }
  return out;
}

std::vector<int64_t> Starts(Args args, size_t first, const Shape& x, absl::Span<const int64_t> sizes) {
  std::vector<int64_t> starts;
  for (size_t i = first; i < args.size(); ++i) {
    for (int64_t v : ReadIndices(*args[i])) starts.push_back(v);
  }
  for (int64_t d = 0; d < x.rank(); ++d) starts[d] = std::clamp<int64_t>(starts[d], 0, x.dimensions(d) - sizes[d]);
  return starts;
}

int64_t Offset(absl::Span<const int64_t> index, absl::Span<const int64_t> strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) offset += index[i] * strides[i];
  return offset;
}

absl::StatusOr<Literal> DynamicSlice(const OpContext& op, Args args) {
  const Literal& x = *args[0];
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  const DimVector strides = RowMajorStrides(x.shape().dimensions());
  const std::vector<int64_t> starts = Starts(args, 1, x.shape(), shape.dimensions());
  StridedCopy(ByteWidth(shape.element_type()), shape.dimensions(), x.bytes(), {Offset(starts, strides), strides},
              out.mutable_bytes(), {0, RowMajorStrides(shape.dimensions())});
  return out;
}

absl::StatusOr<Literal> DynamicUpdateSlice(const OpContext& op, Args args, EvalEnv& env) {
  const Literal update = *args[1];
  const Shape& shape = op.operand(0);
  const DimVector strides = RowMajorStrides(shape.dimensions());
  const std::vector<int64_t> starts = Starts(args, 2, shape, update.shape().dimensions());
  Literal out = env.TakeOperand(0, *args[0]);
  StridedCopy(ByteWidth(shape.element_type()), update.shape().dimensions(), update.bytes(),
              {0, RowMajorStrides(update.shape().dimensions())}, out.mutable_bytes(),
              {Offset(starts, strides), strides});
  return out;
}

// The dimensions of `indices` without the index vector, with their strides.
struct Batch {
  DimVector dims, strides;  // of the index array
  int64_t vector_size = 1, vector_stride = 0;
};

Batch BatchOf(const Shape& indices, int64_t index_vector_dim) {
  Batch b;
  const DimVector strides = RowMajorStrides(indices.dimensions());
  for (int64_t d = 0; d < indices.rank(); ++d) {
    if (d == index_vector_dim) {
      b.vector_size = indices.dimensions(d);
      b.vector_stride = strides[d];
    } else {
      b.dims.push_back(indices.dimensions(d));
      b.strides.push_back(strides[d]);
    }
  }
  return b;
}

// Position in the batch dims of dimension d of the index array.
int64_t BatchPosition(int64_t d, int64_t index_vector_dim) { return d > index_vector_dim ? d - 1 : d; }

absl::StatusOr<Literal> Gather(const OpContext& op, Args args) {
  const Literal &x = *args[0], &indices = *args[1];
  const GatherDimensions& g = op.attrs->Get<GatherDimensions>(AttrId::kGatherDims);
  const Ints& sizes = op.attrs->GetInts(AttrId::kSliceSizes);
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  if (out.num_elements() == 0) return out;
  const std::vector<int64_t> starts = ReadIndices(indices);
  const DimVector strides = RowMajorStrides(x.shape().dimensions()), out_strides = RowMajorStrides(shape.dimensions());
  const Batch batch = BatchOf(indices.shape(), g.index_vector_dim);
  DimVector batch_out, window, window_from, window_to;
  for (int64_t i = 0; i < shape.rank(); ++i) {
    if (!Contains(g.offset_dims, i)) batch_out.push_back(out_strides[i]);
  }
  size_t offset = 0;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    if (Contains(g.collapsed_slice_dims, d) || Contains(g.operand_batching_dims, d)) continue;
    window.push_back(sizes[d]);
    window_from.push_back(strides[d]);
    window_to.push_back(out_strides[g.offset_dims[offset++]]);
  }
  const int width = ByteWidth(shape.element_type());
  const bool one_run = window.empty() || (RowMajorStrides(window) == window_from && window_from == window_to) ||
                       (window.size() == 1 && window_from[0] == 1 && window_to[0] == 1);
  int64_t run = width;
  for (int64_t d : window) run *= d;
  std::byte* target = out.mutable_bytes();
  Odometer<2> at(batch.dims, {batch.strides, batch_out});
  do {
    int64_t from = 0;
    for (int64_t k = 0; k < batch.vector_size; ++k) {
      const int64_t d = g.start_index_map[k];
      const int64_t start = starts[static_cast<size_t>(at.offset(0) + k * batch.vector_stride)];
      from += std::clamp<int64_t>(start, 0, x.shape().dimensions(d) - sizes[d]) * strides[d];
    }
    for (size_t k = 0; k < g.operand_batching_dims.size(); ++k) {
      from += at.index()[BatchPosition(g.start_indices_batching_dims[k], g.index_vector_dim)] *
              strides[g.operand_batching_dims[k]];
    }
    if (one_run) {
      std::memcpy(target + at.offset(1) * width, x.bytes() + from * width, static_cast<size_t>(run));
    } else {
      StridedCopy(width, window, x.bytes(), {from, window_from}, target, {at.offset(1), window_to});
    }
  } while (at.Next());
  return out;
}

// Combines runs of update elements with the results.
class Combiner {
 public:
  virtual ~Combiner() = default;
  // results[i][at + k * 1] = f(..., updates[i][from + k * step], ...) for k < n
  virtual absl::Status Run(int64_t at, int64_t from, int64_t step, int64_t n) = 0;
};

struct ScatterData {
  std::vector<Literal>* results;
  std::vector<Literal>* updates;
};

class KernelCombiner : public Combiner {
 public:
  KernelCombiner(const ElementwiseKernel& kernel, ScatterData data)
      : kernel_(kernel),
        width_(ByteWidth((*data.results)[0].shape().element_type())),
        out_((*data.results)[0].mutable_bytes()),
        in_((*data.updates)[0].bytes()) {}
  absl::Status Run(int64_t at, int64_t from, int64_t step, int64_t n) override {
    if (step == 1) {
      const void* in[3] = {out_ + at * width_, in_ + from * width_, nullptr};
      kernel_.Run(in, out_ + at * width_, n);
      return absl::OkStatus();
    }
    for (int64_t k = 0; k < n; ++k) {
      const void* in[3] = {out_ + (at + k) * width_, in_ + (from + k * step) * width_, nullptr};
      kernel_.Run(in, out_ + (at + k) * width_, 1);
    }
    return absl::OkStatus();
  }

 private:
  ElementwiseKernel kernel_;
  int64_t width_;
  std::byte* out_;
  const std::byte* in_;
};

class ProgramCombiner : public Combiner {
 public:
  ProgramCombiner(const ScalarProgram& program, ScatterData data) : machine_(program, 256) {
    for (size_t i = 0; i < data.results->size(); ++i) {
      width_.push_back(ByteWidth((*data.results)[i].shape().element_type()));
      out_.push_back((*data.results)[i].mutable_bytes());
      in_.push_back((*data.updates)[i].bytes());
    }
  }
  absl::Status Run(int64_t at, int64_t from, int64_t step, int64_t n) override {
    const int64_t most = step == 1 ? machine_.lanes() : 1;
    const int count = static_cast<int>(out_.size());
    for (int64_t k = 0; k < n; k += most) {
      const int64_t m = std::min(most, n - k);
      for (int i = 0; i < count; ++i) {
        machine_.Bind(i, out_[i] + (at + k) * width_[i]);
        machine_.Bind(count + i, in_[i] + (from + k * step) * width_[i]);
      }
      machine_.Run(m);
      for (int i = 0; i < count; ++i) {
        std::memmove(out_[i] + (at + k) * width_[i], machine_.result(i), static_cast<size_t>(m * width_[i]));
      }
    }
    return absl::OkStatus();
  }

 private:
  ScalarMachine machine_;
  std::vector<int64_t> width_;
  std::vector<std::byte*> out_;
  std::vector<const std::byte*> in_;
};

class CallCombiner : public Combiner {
 public:
  CallCombiner(EvalEnv& env, ScatterData data) : env_(env), data_(data) {}
  absl::Status Run(int64_t at, int64_t from, int64_t step, int64_t n) override {
    const size_t count = data_.results->size();
    for (int64_t k = 0; k < n; ++k) {
      std::vector<Literal> values;
      for (size_t i = 0; i < count; ++i) values.push_back(Element((*data_.results)[i], at + k));
      for (size_t i = 0; i < count; ++i) values.push_back(Element((*data_.updates)[i], from + k * step));
      ASSIGN_OR_RETURN(Literal r, env_.CallWithOwnedArguments(0, std::move(values)));
      for (size_t i = 0; i < count; ++i) {
        const Literal& v = r.shape().IsTuple() ? r.elements()[i] : r;
        const size_t width = static_cast<size_t>(v.byte_size());
        std::memcpy((*data_.results)[i].mutable_bytes() + static_cast<size_t>(at + k) * width, v.bytes(), width);
      }
    }
    return absl::OkStatus();
  }

 private:
  static Literal Element(const Literal& x, int64_t i) {
    Literal v(Shape::Scalar(x.shape().element_type()));
    std::memcpy(v.mutable_bytes(), x.bytes() + i * v.byte_size(), static_cast<size_t>(v.byte_size()));
    return v;
  }
  EvalEnv& env_;
  ScatterData data_;
};

absl::StatusOr<Literal> Scatter(const OpContext& op, Args args, EvalEnv& env) {
  const size_t n = args.size() / 2;
  const ScatterDimensions& s = op.attrs->Get<ScatterDimensions>(AttrId::kScatterDims);
  const Literal indices = *args[n];
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  const bool tuple = shape.IsTuple();
  std::vector<Literal> results, updates;
  for (size_t i = 0; i < n; ++i) {
    const PrimitiveType type = (tuple ? shape.tuple_shapes(static_cast<int64_t>(i)) : shape).element_type();
    updates.push_back(*args[n + 1 + i]);
    results.push_back(env.TakeOperand(static_cast<int>(i), *args[i]));
    if (results[i].shape().element_type() != type) {
      ASSIGN_OR_RETURN(results[i], results[i].Convert(type));
      ASSIGN_OR_RETURN(updates[i], updates[i].Convert(type));
    }
  }
  const Shape x = results[0].shape(), u = updates[0].shape();
  if (u.num_elements() == 0) return PackResults(std::move(results), tuple);
  const std::vector<int64_t> starts = ReadIndices(indices);
  const DimVector strides = RowMajorStrides(x.dimensions()), u_strides = RowMajorStrides(u.dimensions());
  const Batch batch = BatchOf(indices.shape(), s.index_vector_dim);
  DimVector batch_from;  // strides in the updates
  for (int64_t i = 0; i < u.rank(); ++i) {
    if (!Contains(s.update_window_dims, i)) batch_from.push_back(u_strides[i]);
  }
  // Window dims, in operand order; the innermost one is done in runs.
  DimVector window, window_from, window_to;
  DimVector last_start = x.dimensions();  // at which a window still lies in the operand
  size_t next = 0;
  for (int64_t d = 0; d < x.rank(); ++d) {
    const bool single = Contains(s.inserted_window_dims, d) || Contains(s.input_batching_dims, d);
    const int64_t from = single ? -1 : s.update_window_dims[next++];
    last_start[d] -= single ? 1 : u.dimensions(from);
    if (single) continue;
    window.push_back(u.dimensions(from));
    window_from.push_back(u_strides[from]);
    window_to.push_back(strides[d]);
  }
  const bool runs = !window.empty() && window_to.back() == 1;
  const size_t outer = window.size() - (runs ? 1 : 0);
  const int64_t run_size = runs ? window.back() : 1, run_step = runs ? window_from.back() : 1;

  ScatterData data{&results, &updates};
  std::unique_ptr<Combiner> combine;
  std::optional<Opcode> simple = env.CalledBinaryOp(0);
  std::optional<ElementwiseKernel> kernel;
  if (simple && n == 1) kernel = SelectBinaryKernel(*simple, results[0].shape().element_type());
  const ScalarProgram* program = kernel ? nullptr : env.CalledScalarProgram(0);
  if (kernel)
    combine = std::make_unique<KernelCombiner>(*kernel, data);
  else if (program != nullptr)
    combine = std::make_unique<ProgramCombiner>(*program, data);
  else
    combine = std::make_unique<CallCombiner>(env, data);

  Odometer<2> at(batch.dims, {batch.strides, batch_from});
  DimVector start(x.rank(), 0);
  do {
    std::fill(start.begin(), start.end(), 0);
    for (int64_t k = 0; k < batch.vector_size; ++k) {
      start[s.scatter_dims_to_operand_dims[k]] = starts[static_cast<size_t>(at.offset(0) + k * batch.vector_stride)];
    }
    for (size_t k = 0; k < s.input_batching_dims.size(); ++k) {
      start[s.input_batching_dims[k]] =
          at.index()[BatchPosition(s.scatter_indices_batching_dims[k], s.index_vector_dim)];
    }
    // A window that does not lie in the operand as a whole updates nothing.
    bool inside = true;
    for (int64_t d = 0; d < x.rank(); ++d) inside = inside && start[d] >= 0 && start[d] <= last_start[d];
    if (!inside) continue;
    const int64_t base = Offset(start, strides);
    Odometer<2> w(absl::MakeSpan(window).subspan(0, outer),
                  {absl::MakeSpan(window_from).subspan(0, outer), absl::MakeSpan(window_to).subspan(0, outer)});
    do {
      RETURN_IF_ERROR(combine->Run(base + w.offset(1), at.offset(1) + w.offset(0), run_step, run_size));
    } while (w.Next());
  } while (at.Next());
  combine.reset();
  return PackResults(std::move(results), tuple);
}

}  // namespace

absl::StatusOr<Literal> EvaluateIndexing(const OpContext& op, Args args, EvalEnv& env) {
  switch (op.opcode) {
    case Opcode::kDynamicSlice:
      return DynamicSlice(op, args);
    case Opcode::kDynamicUpdateSlice:
      return DynamicUpdateSlice(op, args, env);
    case Opcode::kGather:
      return Gather(op, args);
    default:
      return Scatter(op, args, env);
  }
}

}  // namespace backplane
