// Evaluation of reduce-window and select-and-scatter.
#include <memory>

#include "core/ops/families/elements.h"
#include "core/ops/families/run_reducer.h"

namespace backplane {
namespace {

// What one window element contributes to one row of outputs.
class RowCombiner {
 public:
  virtual ~RowCombiner() = default;
  virtual absl::Status Run(int64_t out, int64_t out_step, int64_t in, int64_t in_step, int64_t n) = 0;
};

class ProgramRow : public RowCombiner {
 public:
  ProgramRow(const ScalarProgram& program, const std::vector<Literal>& inputs, std::vector<Literal>& results)
      : machine_(program, kLanes), inputs_(inputs), n_(static_cast<int>(inputs.size())), gathered_(2 * inputs.size()) {
    for (int i = 0; i < n_; ++i) {
      width_.push_back(ByteWidth(results[i].shape().element_type()));
      out_.push_back(results[i].mutable_bytes());
    }
    for (auto& g : gathered_) g.resize(kLanes * 16);
  }
  absl::Status Run(int64_t out, int64_t out_step, int64_t in, int64_t in_step, int64_t n) override {
    for (int64_t k = 0; k < n; k += kLanes) {
      const int64_t m = std::min(kLanes, n - k);
      for (int i = 0; i < n_; ++i) {
        machine_.Bind(i, Lanes(i, out_[i] + (out + k * out_step) * width_[i], out_step, m, width_[i]));
        machine_.Bind(n_ + i,
                      Lanes(n_ + i, inputs_[i].bytes() + (in + k * in_step) * width_[i], in_step, m, width_[i]));
      }
      machine_.Run(m);
      for (int i = 0; i < n_; ++i) {
        std::byte* to = out_[i] + (out + k * out_step) * width_[i];
        const std::byte* from = static_cast<const std::byte*>(machine_.result(i));
        if (from == to) continue;
        StridedCopy(static_cast<int>(width_[i]), {m}, from, {0, {1}}, to, {0, {out_step}});
      }
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kLanes = 256;
  const void* Lanes(int buffer, const std::byte* from, int64_t step, int64_t m, int64_t width) {
    if (step == 1 && buffer >= n_) return from;
    StridedCopy(static_cast<int>(width), {m}, from, {0, {step}}, gathered_[buffer].data(), {0, {1}});
    return gathered_[buffer].data();
  }
  ScalarMachine machine_;
  const std::vector<Literal>& inputs_;
  int n_;
  std::vector<std::vector<std::byte>> gathered_;
  std::vector<int64_t> width_;
  std::vector<std::byte*> out_;
};

class KernelRow : public RowCombiner {
 public:
  KernelRow(const ElementwiseKernel& kernel, const Literal& input, Literal& result)
      : kernel_(kernel),
        width_(ByteWidth(result.shape().element_type())),
        in_(input.bytes()),
        out_(result.mutable_bytes()) {}
  absl::Status Run(int64_t out, int64_t out_step, int64_t in, int64_t in_step, int64_t n) override {
    if (out_step == 1) {
      alignas(16) std::byte gathered[kBlock * 16];
      for (int64_t k = 0; k < n; k += kBlock) {
        const int64_t m = std::min(kBlock, n - k);
        const std::byte* x = in_ + (in + k * in_step) * width_;
        if (in_step != 1) {
          StridedCopy(static_cast<int>(width_), {m}, x, {0, {in_step}}, gathered, {0, {1}});
          x = gathered;
        }
        std::byte* to = out_ + (out + k) * width_;
        const void* args[3] = {to, x, nullptr};
        kernel_.Run(args, to, m);
      }
      return absl::OkStatus();
    }
    for (int64_t k = 0; k < n; ++k) {
      std::byte* to = out_ + (out + k * out_step) * width_;
      const void* args[3] = {to, in_ + (in + k * in_step) * width_, nullptr};
      kernel_.Run(args, to, 1);
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kBlock = 256;
  ElementwiseKernel kernel_;
  int64_t width_;
  const std::byte* in_;
  std::byte* out_;
};

class CallRow : public RowCombiner {
 public:
  CallRow(EvalEnv& env, const std::vector<Literal>& inputs, std::vector<Literal>& results)
      : env_(env), inputs_(inputs), results_(results) {}
  absl::Status Run(int64_t out, int64_t out_step, int64_t in, int64_t in_step, int64_t n) override {
    for (int64_t k = 0; k < n; ++k) {
      std::vector<Literal> values;
      for (const Literal& r : results_) values.push_back(ScalarAt(r, out + k * out_step));
      for (const Literal& x : inputs_) values.push_back(ScalarAt(x, in + k * in_step));
      ASSIGN_OR_RETURN(Literal v, env_.CallWithOwnedArguments(0, std::move(values)));
      for (size_t i = 0; i < results_.size(); ++i) {
        const Literal& part = v.shape().IsTuple() ? v.elements()[i] : v;
        std::memcpy(results_[i].mutable_bytes() + (out + k * out_step) * part.byte_size(), part.bytes(),
                    static_cast<size_t>(part.byte_size()));
      }
    }
    return absl::OkStatus();
  }

 private:
  EvalEnv& env_;
  const std::vector<Literal>& inputs_;
  std::vector<Literal>& results_;
};

absl::StatusOr<Literal> ReduceWindow(const OpContext& op, Args args, EvalEnv& env) {
  const size_t n = args.size() / 2;
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  const bool tuple = shape.IsTuple();
  const Window& window = op.attrs->Get<Window>(AttrId::kWindow);
  const std::optional<Opcode> simple = n == 1 ? env.CalledBinaryOp(0) : std::nullopt;
  const int64_t positions = window.CountElements();
  std::vector<Literal> inputs, results;
  std::vector<PrimitiveType> types;
  for (size_t i = 0; i < n; ++i) {
    const Shape& s = tuple ? shape.tuple_shapes(static_cast<int64_t>(i)) : shape;
    types.push_back(s.element_type());
    PrimitiveType t = s.element_type();
    if (simple && positions > kStepwiseWindow && IsFloat(t) && t != PrimitiveType::kF64) t = PrimitiveType::kF32;
    ASSIGN_OR_RETURN(Literal x, args[i]->Convert(t));
    ASSIGN_OR_RETURN(Literal init, args[n + i]->Convert(t));
    inputs.push_back(std::move(x));
    ASSIGN_OR_RETURN(Literal result, AllocateLiteral(op, s.WithElementType(t)));
    FillElements(ByteWidth(t), init.bytes(), result.mutable_bytes(), result.num_elements());
    results.push_back(std::move(result));
  }
  std::unique_ptr<RowCombiner> combine;
  std::optional<ElementwiseKernel> kernel;
  if (simple) kernel = SelectBinaryKernel(*simple, inputs[0].shape().element_type());
  const ScalarProgram* program = kernel ? nullptr : env.CalledScalarProgram(0);
  if (kernel)
    combine = std::make_unique<KernelRow>(*kernel, inputs[0], results[0]);
  else if (program != nullptr)
    combine = std::make_unique<ProgramRow>(*program, inputs, results);
  else
    combine = std::make_unique<CallRow>(env, inputs, results);

  const Shape &x = inputs[0].shape(), &y = results[0].shape();
  const int64_t rank = x.rank();
  const DimVector in_strides = RowMajorStrides(x.dimensions()), out_strides = RowMajorStrides(y.dimensions());
  if (y.num_elements() > 0 && rank == 0) {
    RETURN_IF_ERROR(combine->Run(0, 1, 0, 1, 1));
  } else if (y.num_elements() > 0) {
    DimVector sizes, zero(rank, 0);
    for (const WindowDimension& d : window.dimensions) sizes.push_back(d.size);
    Odometer<1> w(sizes, {zero});
    do {
      DimVector counts, from, to;
      int64_t in = 0, out = 0;
      bool empty = false;
      for (int64_t d = 0; d < rank; ++d) {
        const WindowLine line = MakeWindowLine(window.dimensions[d], x.dimensions(d), y.dimensions(d), w.index()[d]);
        empty = empty || line.count == 0;
        counts.push_back(line.count);
        from.push_back(line.in_step * in_strides[d]);
        to.push_back(line.step * out_strides[d]);
        in += line.in_first * in_strides[d];
        out += line.first * out_strides[d];
      }
      if (empty) continue;
      // The row goes along the innermost dimension of more than one element.
      int64_t row = rank - 1;
      while (row > 0 && counts[row] == 1) --row;
      const int64_t n_row = counts[row], in_step = from[row], out_step = to[row];
      counts[row] = 1;
      Odometer<2> at(counts, {from, to});
      do {
        RETURN_IF_ERROR(combine->Run(out + at.offset(1), out_step, in + at.offset(0), in_step, n_row));
      } while (at.Next());
    } while (w.Next());
  }
  combine.reset();
  for (size_t i = 0; i < n; ++i) {
    ASSIGN_OR_RETURN(results[i], results[i].Convert(types[i]));
  }
  return PackResults(std::move(results), tuple);
}

// A called function of two scalars; fast where it is a scalar program.
class Pair {
 public:
  Pair(EvalEnv& env, int which) : env_(env), which_(which) {
    if (const ScalarProgram* p = env.CalledScalarProgram(which)) machine_.emplace(*p, 1);
  }
  absl::Status Run(PrimitiveType type, const std::byte* a, const std::byte* b, std::byte* out, size_t out_width) {
    if (machine_) {
      machine_->Bind(0, a);
      machine_->Bind(1, b);
      machine_->Run(1);
      std::memmove(out, machine_->result(0), out_width);
      return absl::OkStatus();
    }
    Literal x(Shape::Scalar(type)), y(Shape::Scalar(type));
    std::memcpy(x.mutable_bytes(), a, static_cast<size_t>(x.byte_size()));
    std::memcpy(y.mutable_bytes(), b, static_cast<size_t>(y.byte_size()));
    const Literal* args[2] = {&x, &y};
    ASSIGN_OR_RETURN(Literal r, env_.Call(which_, args));
    std::memcpy(out, r.bytes(), out_width);
    return absl::OkStatus();
  }

 private:
  EvalEnv& env_;
  int which_;
  std::optional<ScalarMachine> machine_;
};

absl::StatusOr<Literal> SelectAndScatter(const OpContext& op, Args args, EvalEnv& env) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  const Window& window = op.attrs->Get<Window>(AttrId::kWindow);
  const Literal& x = *args[0];
  const PrimitiveType type = x.shape().element_type();
  ASSIGN_OR_RETURN(Literal source, args[1]->Convert(shape.element_type()));
  ASSIGN_OR_RETURN(Literal init, args[2]->Convert(shape.element_type()));
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  const int width = ByteWidth(type), out_width = ByteWidth(shape.element_type());
  std::byte* to = out.mutable_bytes();
  FillElements(out_width, init.bytes(), to, out.num_elements());
  if (source.num_elements() == 0) return out;
  Pair select(env, 0), scatter(env, 1);
  const int64_t rank = x.shape().rank();
  const DimVector strides = RowMajorStrides(x.shape().dimensions()), zero(rank, 0);
  DimVector sizes;
  for (const WindowDimension& d : window.dimensions) sizes.push_back(d.size);
  Odometer<1> s(source.shape().dimensions(), {RowMajorStrides(source.shape().dimensions())});
  do {
    int64_t best = -1;
    Odometer<1> w(sizes, {zero});
    do {
      int64_t at = 0;
      bool inside = true;
      for (int64_t d = 0; inside && d < rank; ++d) {
        const WindowDimension& dim = window.dimensions[d];
        const int64_t i = s.index()[d] * dim.stride - dim.padding_low + w.index()[d];
        inside = i >= 0 && i < x.shape().dimensions(d);
        at += i * strides[d];
      }
      if (!inside) continue;
      if (best < 0) {
        best = at;
        continue;
      }
      std::byte keep{0};
      RETURN_IF_ERROR(select.Run(type, x.bytes() + best * width, x.bytes() + at * width, &keep, 1));
      if (keep == std::byte{0}) best = at;
    } while (w.Next());
    if (best < 0) continue;
    RETURN_IF_ERROR(scatter.Run(shape.element_type(), to + best * out_width, source.bytes() + s.offset() * out_width,
                                to + best * out_width, static_cast<size_t>(out_width)));
  } while (s.Next());
  return out;
}

}  // namespace

absl::StatusOr<Literal> EvaluateWindow(const OpContext& op, Args args, EvalEnv& env) {
  return op.opcode == Opcode::kReduceWindow ? ReduceWindow(op, args, env) : SelectAndScatter(op, args, env);
}

}  // namespace backplane
