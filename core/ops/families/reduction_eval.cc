// Evaluation of reduce, scan, sort and top-k.
#include <bit>
#include <memory>
#include <numeric>

#include "core/ops/families/elements.h"
#include "core/ops/families/run_reducer.h"
#include "core/types/literal_convert.h"

namespace backplane {
namespace {

// The operand's dimensions, split into those kept and those reduced, with strides in the operand. A reduced dynamic
// dimension has its actual size: elements beyond it do not count.
struct ReducePlan {
  DimVector kept, kept_strides, reduced, reduced_strides;
  int64_t outputs = 1, inputs = 1;
};

ReducePlan MakePlan(const Literal& x, absl::Span<const int64_t> dims) {
  ReducePlan p;
  const DimVector strides = RowMajorStrides(x.shape().dimensions());
  auto add = [](DimVector& sizes, DimVector& steps, int64_t size, int64_t stride) {
    if (size == 1) return;
    if (!sizes.empty() && steps.back() == stride * size) {
      sizes.back() *= size;
      steps.back() = stride;
    } else {
      sizes.push_back(size);
      steps.push_back(stride);
    }
  };
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    if (Contains(dims, d)) {
      const int64_t size = x.dynamic_size(d);
      p.inputs *= size;
      add(p.reduced, p.reduced_strides, size, strides[d]);
    } else {
      const int64_t size = x.shape().dimensions(d);
      p.outputs *= size;
      add(p.kept, p.kept_strides, size, strides[d]);
    }
  }
  return p;
}

// The reducer is one binary operation. It combines whole runs of outputs where their elements lie side by side, and
// otherwise reduces each output's run.
void ReduceWithKernel(const ReducePlan& p, const ElementwiseKernel& kernel, RunReducer reduce_run, int width,
                      const std::byte* x, std::byte* out) {
  const bool kept_inside = !p.kept.empty() && p.kept_strides.back() == 1;
  const size_t nk = p.kept.size(), nr = p.reduced.size();
  if (kept_inside || reduce_run == nullptr) {
    // For each outer kept index and each reduced index: out[run] = op(out[run], x[run]).
    const size_t outer = kept_inside ? nk - 1 : nk;
    const int64_t run = kept_inside ? p.kept.back() : 1;
    const DimVector to = RowMajorStrides(p.kept);
    Odometer<2> k(absl::MakeSpan(p.kept).subspan(0, outer),
                  {absl::MakeSpan(p.kept_strides).subspan(0, outer), absl::MakeSpan(to).subspan(0, outer)});
    do {
      std::byte* target = out + k.offset(1) * width;
      Odometer<1> r(p.reduced, {p.reduced_strides});
      do {
        const void* in[3] = {target, x + (k.offset(0) + r.offset()) * width, nullptr};
        kernel.Run(in, target, run);
      } while (r.Next());
    } while (k.Next());
    return;
  }
  const int64_t run = nr > 0 ? p.reduced.back() : 1, step = nr > 0 ? p.reduced_strides.back() : 1;
  Odometer<1> k(p.kept, {p.kept_strides});
  do {
    Odometer<1> r(absl::MakeSpan(p.reduced).subspan(0, nr > 0 ? nr - 1 : 0),
                  {absl::MakeSpan(p.reduced_strides).subspan(0, nr > 0 ? nr - 1 : 0)});
    do {
      reduce_run(out, x + (k.offset() + r.offset()) * width, run, step);
    } while (r.Next());
    out += width;
  } while (k.Next());
}

// The reducer is any program over scalars; each lane computes one output.
void ReduceWithProgram(const ReducePlan& p, const ScalarProgram& program, const std::vector<Literal>& inputs,
                       std::vector<Literal>& results) {
  const int n = static_cast<int>(inputs.size());
  const int64_t lanes = std::min<int64_t>(512, std::max<int64_t>(p.outputs, 1));
  ScalarMachine machine(program, lanes);
  std::vector<int64_t> widths;
  std::vector<std::byte*> out;
  std::vector<std::vector<std::byte>> gathered(inputs.size());
  for (int i = 0; i < n; ++i) {
    widths.push_back(ByteWidth(results[i].shape().element_type()));
    out.push_back(results[i].mutable_bytes());
    gathered[i].resize(static_cast<size_t>(lanes * widths[i]));
  }
  std::vector<int64_t> base(static_cast<size_t>(lanes));
  Odometer<1> k(p.kept, {p.kept_strides});
  for (int64_t first = 0; first < p.outputs; first += lanes) {
    const int64_t m = std::min(lanes, p.outputs - first);
    bool contiguous = true;
    for (int64_t i = 0; i < m; ++i) {
      base[static_cast<size_t>(i)] = k.offset();
      contiguous = contiguous && base[static_cast<size_t>(i)] == base[0] + i;
      k.Next();
    }
    Odometer<1> r(p.reduced, {p.reduced_strides});
    do {
      for (int i = 0; i < n; ++i) {
        const std::byte* x = inputs[i].bytes() + r.offset() * widths[i];
        machine.Bind(i, out[i] + first * widths[i]);
        if (contiguous) {
          machine.Bind(n + i, x + base[0] * widths[i]);
          continue;
        }
        const size_t width = static_cast<size_t>(widths[i]);
        for (size_t e = 0; e < static_cast<size_t>(m); ++e) {
          std::memcpy(gathered[i].data() + e * width, x + static_cast<size_t>(base[e]) * width, width);
        }
        machine.Bind(n + i, gathered[i].data());
      }
      machine.Run(m);
      for (int i = 0; i < n; ++i) {
        std::memmove(out[i] + first * widths[i], machine.result(i), static_cast<size_t>(m * widths[i]));
      }
    } while (r.Next());
  }
}

absl::Status ReduceWithCalls(const ReducePlan& p, EvalEnv& env, const std::vector<Literal>& inputs,
                             std::vector<Literal>& results) {
  Odometer<1> k(p.kept, {p.kept_strides});
  int64_t at = 0;
  do {
    Odometer<1> r(p.reduced, {p.reduced_strides});
    do {
      std::vector<Literal> values;
      for (const Literal& acc : results) values.push_back(ScalarAt(acc, at));
      for (const Literal& x : inputs) values.push_back(ScalarAt(x, k.offset() + r.offset()));
      ASSIGN_OR_RETURN(Literal v, env.CallWithOwnedArguments(0, std::move(values)));
      for (size_t i = 0; i < results.size(); ++i) {
        const Literal& part = v.shape().IsTuple() ? v.elements()[i] : v;
        std::memcpy(results[i].mutable_bytes() + at * part.byte_size(), part.bytes(),
                    static_cast<size_t>(part.byte_size()));
      }
    } while (r.Next());
    ++at;
  } while (k.Next());
  return absl::OkStatus();
}

absl::StatusOr<Literal> Reduce(const OpContext& op, Args args, EvalEnv& env) {
  const size_t n = args.size() / 2;
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  const bool tuple = shape.IsTuple();
  const Ints& dims = op.attrs->GetInts(AttrId::kDimensions);
  const ReducePlan plan = MakePlan(*args[0], dims);
  const std::optional<Opcode> simple = n == 1 ? env.CalledBinaryOp(0) : std::nullopt;
  std::vector<Literal> inputs, results;
  std::vector<PrimitiveType> types;
  for (size_t i = 0; i < n; ++i) {
    const Shape& s = tuple ? shape.tuple_shapes(static_cast<int64_t>(i)) : shape;
    types.push_back(s.element_type());
    // Narrow floats are summed in f32 and rounded once at the end.
    PrimitiveType t = s.element_type();
    if (simple && IsFloat(t) && t != PrimitiveType::kF64) t = PrimitiveType::kF32;
    Literal x = *args[i], init = *args[n + i];
    if (x.shape().element_type() != t) {
      ASSIGN_OR_RETURN(Literal wide, x.Convert(t));
      x = std::move(wide);
    }
    if (init.shape().element_type() != t) {
      ASSIGN_OR_RETURN(init, init.Convert(t));
    }
    inputs.push_back(std::move(x));
    ASSIGN_OR_RETURN(Literal result, AllocateLiteral(op, s.WithElementType(t)));
    FillElements(ByteWidth(t), init.bytes(), result.mutable_bytes(), result.num_elements());
    results.push_back(std::move(result));
  }
  if (plan.outputs > 0 && plan.inputs > 0) {
    std::optional<ElementwiseKernel> kernel;
    const PrimitiveType t = inputs[0].shape().element_type();
    if (simple) kernel = SelectBinaryKernel(*simple, t);
    if (kernel) {
      ReduceWithKernel(plan, *kernel, FindRunReducer(*simple, t), ByteWidth(t), inputs[0].bytes(),
                       results[0].mutable_bytes());
    } else if (const ScalarProgram* program = env.CalledScalarProgram(0)) {
      ReduceWithProgram(plan, *program, inputs, results);
    } else {
      RETURN_IF_ERROR(ReduceWithCalls(plan, env, inputs, results));
    }
  }
  for (size_t i = 0; i < n; ++i) {
    if (results[i].shape().element_type() != types[i]) {
      ASSIGN_OR_RETURN(results[i], results[i].Convert(types[i]));
    }
    for (int64_t d = 0, kept = 0; d < args[i]->shape().rank(); ++d) {
      if (Contains(dims, d)) continue;
      if (args[i]->shape().is_dynamic(d) && results[i].shape().is_dynamic(kept)) {
        results[i].set_dynamic_size(kept, args[i]->dynamic_size(d));
      }
      ++kept;
    }
  }
  return PackResults(std::move(results), tuple);
}

absl::StatusOr<Literal> Scan(const OpContext& op, Args args, EvalEnv& env) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  const std::vector<Shape> shapes = shape.IsTuple() ? shape.tuple_shapes() : std::vector<Shape>{shape};
  const int64_t k = op.attrs->GetInt(AttrId::kNumCarries), d = op.attrs->GetInts(AttrId::kDimensions)[0];
  const size_t m = args.size() - static_cast<size_t>(k), n = shapes.size() - static_cast<size_t>(k);
  const bool reverse = op.attrs->GetBool(AttrId::kIsReverse);
  int64_t length = 0;
  if (m > 0)
    length = args[0]->shape().dimensions(d);
  else if (n > 0)
    length = shapes[0].dimensions(d);
  std::vector<Literal> carries, outputs;
  for (size_t i = m; i < args.size(); ++i) carries.push_back(*args[i]);
  for (size_t i = 0; i < n; ++i) {
    ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shapes[i]));
    outputs.push_back(std::move(out));
  }
  // One slice at `step` of the scan dimension, to or from a dense array.
  auto side = [&](const Shape& s, int64_t step, DimVector& dims) {
    const DimVector strides = RowMajorStrides(s.dimensions());
    StridedSide view{step * strides[d], {}};
    dims.clear();
    for (int64_t i = 0; i < s.rank(); ++i) {
      if (i == d) continue;
      dims.push_back(s.dimensions(i));
      view.strides.push_back(strides[i]);
    }
    return view;
  };
  DimVector dims;
  for (int64_t t = 0; t < length; ++t) {
    RETURN_IF_ERROR(env.CheckCancelled());
    const int64_t step = reverse ? length - 1 - t : t;
    std::vector<Literal> values;
    for (size_t i = 0; i < m; ++i) {
      const StridedSide view = side(args[i]->shape(), step, dims);
      Literal slice(Shape(args[i]->shape().element_type(), dims));
      StridedCopy(ByteWidth(slice.shape().element_type()), dims, args[i]->bytes(), view, slice.mutable_bytes(),
                  {0, RowMajorStrides(dims)});
      values.push_back(std::move(slice));
    }
    for (Literal& c : carries) values.push_back(std::move(c));
    ASSIGN_OR_RETURN(Literal r, env.CallWithOwnedArguments(0, std::move(values)));
    std::vector<Literal> parts;
    if (r.shape().IsTuple())
      parts = std::move(r.mutable_elements());
    else
      parts.push_back(std::move(r));
    for (size_t i = 0; i < n; ++i) {
      const StridedSide view = side(outputs[i].shape(), step, dims);
      StridedCopy(ByteWidth(outputs[i].shape().element_type()), dims, parts[i].bytes(), {0, RowMajorStrides(dims)},
                  outputs[i].mutable_bytes(), view);
    }
    carries.assign(std::make_move_iterator(parts.begin() + static_cast<int64_t>(n)),
                   std::make_move_iterator(parts.end()));
  }
  for (Literal& c : carries) outputs.push_back(std::move(c));
  return PackResults(std::move(outputs), shape.IsTuple());
}

// Merge sort, stable, safe under any comparator: an inconsistent one gives some permutation.
template <typename Less>
absl::Status MergeSort(std::vector<int64_t>& order, Less&& less) {
  const size_t n = order.size();
  std::vector<int64_t> other(n);
  for (size_t width = 1; width < n; width *= 2) {
    for (size_t low = 0; low < n; low += 2 * width) {
      const size_t middle = std::min(low + width, n), high = std::min(low + 2 * width, n);
      size_t a = low, b = middle;
      for (size_t to = low; to < high; ++to) {
        bool right = false;
        if (a < middle && b < high) {
          ASSIGN_OR_RETURN(right, less(order[b], order[a]));
        }
        const bool take_b = a == middle || (b < high && right);
        other[to] = take_b ? order[b++] : order[a++];
      }
    }
    order.swap(other);
  }
  return absl::OkStatus();
}

absl::StatusOr<Literal> Sort(const OpContext& op, Args args, EvalEnv& env) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  const Shape& x = args[0]->shape();
  const Ints& dims = op.attrs->GetInts(AttrId::kDimensions);
  const int64_t d = dims.empty() ? x.rank() - 1 : dims[0];
  const bool tuple = shape.IsTuple();
  std::vector<Literal> results;
  for (const Literal* a : args) results.push_back(*a);
  if (x.rank() == 0 || x.num_elements() == 0 || x.dimensions(d) < 2) return PackResults(std::move(results), tuple);
  const int64_t size = x.dimensions(d);
  DimVector outer = x.dimensions(), strides = RowMajorStrides(x.dimensions());
  const int64_t step = strides[d];
  outer[d] = 1;
  const ScalarProgram* program = env.CalledScalarProgram(0);
  std::optional<ScalarMachine> machine;
  if (program != nullptr) machine.emplace(*program, 1);
  const size_t n = args.size();
  std::vector<int64_t> widths;
  std::vector<std::byte*> out;
  for (size_t i = 0; i < n; ++i) {
    widths.push_back(ByteWidth(args[i]->shape().element_type()));
    out.push_back(results[i].mutable_bytes());
  }
  std::vector<int64_t> order(static_cast<size_t>(size));
  Odometer<1> line(outer, {strides});
  do {
    const int64_t base = line.offset();
    std::iota(order.begin(), order.end(), 0);
    if (machine) {
      RETURN_IF_ERROR(MergeSort(order, [&](int64_t a, int64_t b) -> absl::StatusOr<bool> {
        for (size_t i = 0; i < n; ++i) {
          machine->Bind(static_cast<int>(2 * i), args[i]->bytes() + (base + a * step) * widths[i]);
          machine->Bind(static_cast<int>(2 * i + 1), args[i]->bytes() + (base + b * step) * widths[i]);
        }
        machine->Run(1);
        return *static_cast<const uint8_t*>(machine->result(0)) != 0;
      }));
    } else {
      RETURN_IF_ERROR(MergeSort(order, [&](int64_t a, int64_t b) -> absl::StatusOr<bool> {
        std::vector<Literal> values;
        for (const Literal* v : args) {
          values.push_back(ScalarAt(*v, base + a * step));
          values.push_back(ScalarAt(*v, base + b * step));
        }
        ASSIGN_OR_RETURN(Literal r, env.CallWithOwnedArguments(0, std::move(values)));
        return r.GetAsInt(0) != 0;
      }));
    }
    for (size_t i = 0; i < n; ++i) {
      const size_t width = static_cast<size_t>(widths[i]);
      for (int64_t k = 0; k < size; ++k) {
        std::memcpy(out[i] + (base + k * step) * widths[i],
                    args[i]->bytes() + (base + order[static_cast<size_t>(k)] * step) * widths[i], width);
      }
    }
  } while (line.Next());
  return PackResults(std::move(results), tuple);
}

// Keys whose order as signed integers is the order of the elements; floats in total order.
std::vector<int64_t> SortKeys(const Literal& x) {
  std::vector<int64_t> keys(static_cast<size_t>(x.num_elements()));
  const PrimitiveType t = x.shape().element_type();
  if (IsFloat(t)) {
    std::vector<double> values(keys.size());
    ReadElements(t, x.bytes(), 0, x.num_elements(), values.data());
    for (size_t i = 0; i < keys.size(); ++i) {
      const int64_t b = std::bit_cast<int64_t>(values[i]);
      keys[i] = b ^ ((b >> 63) & 0x7fffffffffffffff);
    }
  } else {
    ReadElements(t, x.bytes(), 0, x.num_elements(), keys.data());
    if (t == PrimitiveType::kU64) {
      for (int64_t& k : keys) k = static_cast<int64_t>(static_cast<uint64_t>(k) ^ (uint64_t{1} << 63));
    }
  }
  return keys;
}

absl::StatusOr<Literal> TopK(const OpContext& op, const Literal& x) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  const int64_t size = x.shape().dimensions(x.shape().rank() - 1), k = op.attrs->GetInt(AttrId::kK);
  const bool largest = !op.attrs->Has(AttrId::kLargest) || op.attrs->GetBool(AttrId::kLargest);
  ASSIGN_OR_RETURN(Literal values, AllocateLiteral(op, shape.tuple_shapes(0)));
  ASSIGN_OR_RETURN(Literal indices, AllocateLiteral(op, shape.tuple_shapes(1)));
  std::byte* to = values.mutable_bytes();
  absl::Span<int32_t> at = indices.mutable_data<int32_t>();
  const std::vector<int64_t> keys = SortKeys(x);
  const int64_t width = ByteWidth(x.shape().element_type());
  std::vector<int32_t> order(static_cast<size_t>(size));
  const int64_t rows = size == 0 ? 0 : x.num_elements() / size;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t* key = keys.data() + row * size;
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int32_t a, int32_t b) {
      if (key[a] != key[b]) return largest ? key[a] > key[b] : key[a] < key[b];
      return a < b;
    });
    for (int64_t i = 0; i < k; ++i) {
      const int32_t from = order[static_cast<size_t>(i)];
      at[static_cast<size_t>(row * k + i)] = from;
      std::memcpy(to + (row * k + i) * width, x.bytes() + (row * size + from) * width, static_cast<size_t>(width));
    }
  }
  std::vector<Literal> results;
  results.push_back(std::move(values));
  results.push_back(std::move(indices));
  return Literal::Tuple(std::move(results));
}

}  // namespace

absl::StatusOr<Literal> EvaluateReduction(const OpContext& op, Args args, EvalEnv& env) {
  switch (op.opcode) {
    case Opcode::kReduce:
      return Reduce(op, args, env);
    case Opcode::kScan:
      return Scan(op, args, env);
    case Opcode::kSort:
      return Sort(op, args, env);
    default:
      return TopK(op, *args[0]);
  }
}

}  // namespace backplane
