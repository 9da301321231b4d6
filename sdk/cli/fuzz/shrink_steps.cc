#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "sdk/cli/fuzz/shrink.h"

namespace backplane::cli::fuzz {
namespace {

// The n-th instruction of the copy is the copy of the n-th instruction, because Clone keeps the order.
Instruction* At(const FuzzProgram& p, size_t n) { return p.module->entry()->Snapshot()[n]; }

bool IsPlainArray(const Shape& s) { return s.IsArray() && !s.HasDynamicDimensions(); }

// A candidate whose entry computation returns the n-th instruction.
FuzzProgram Returning(const FuzzProgram& p, size_t n) {
  FuzzProgram c = Copy(p);
  c.module->entry()->set_root(At(c, n));
  return c;
}

std::optional<absl::flat_hash_map<const Instruction*, BoundedValue>> BoundAll(const FuzzProgram& p) {
  BoundedValues all;
  if (!BoundEntry(*p.module, p.arguments, &all).ok()) return std::nullopt;
  return all;
}

Literal Cut(const Literal& from, const Shape& to) {
  Literal out(to);
  const int64_t width = ByteWidth(to.element_type());
  const DimVector strides = RowMajorStrides(from.shape().dimensions());
  std::vector<int64_t> index(static_cast<size_t>(to.rank()), 0);
  std::byte* at = out.mutable_bytes();
  for (int64_t n = 0; n < to.num_elements(); ++n) {
    int64_t source = 0;
    for (size_t d = 0; d < index.size(); ++d) source += index[d] * strides[d];
    std::memcpy(at + n * width, from.bytes() + source * width, static_cast<size_t>(width));
    for (size_t d = index.size(); d > 0; --d) {
      if (++index[d - 1] < to.dimensions(static_cast<int64_t>(d - 1))) break;
      index[d - 1] = 0;
    }
  }
  return out;
}

Shape Resized(const Shape& shape, int64_t from, int64_t to) {
  if (shape.IsTuple()) {
    std::vector<Shape> parts;
    for (const Shape& s : shape.tuple_shapes()) parts.push_back(Resized(s, from, to));
    return Shape::Tuple(std::move(parts));
  }
  Shape out = shape.WithoutLayout();
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (shape.dimensions(d) == from) out.set_dimension(d, to);
  }
  return out;
}

// Reduces every dimension of that size, in all computations. If the result is inconsistent, the operations' own checks
// refuse it.
std::optional<FuzzProgram> Resize(const FuzzProgram& p, int64_t from, int64_t to) {
  FuzzProgram out;
  out.seed = p.seed;
  out.module = std::make_unique<Module>(p.module->name());
  out.module->config() = p.module->config();
  absl::flat_hash_map<const Computation*, Computation*> made;
  for (const Computation* c : p.module->PostOrder()) {
    Builder b(out.module.get(), c->name());
    absl::flat_hash_map<const Instruction*, Value> values;
    for (const auto& i : c->instructions()) {
      const Shape shape = Resized(i->shape(), from, to);
      absl::StatusOr<Value> v = absl::InternalError("");
      if (i->Is(Opcode::kParameter)) {
        v = b.Parameter(i->parameter_number(), shape);
      } else if (i->Is(Opcode::kConstant)) {
        v = b.Constant(shape.IsArray() ? Cut(i->literal(), shape) : i->literal());
      } else {
        std::vector<Value> operands;
        for (const Instruction* o : i->operands()) operands.push_back(values.at(o));
        std::vector<Computation*> called;
        for (const Computation* callee : i->called()) called.push_back(made.at(callee));
        Attributes attrs = i->attrs();
        for (const AttrId id : {AttrId::kDynamicSliceSizes, AttrId::kSliceSizes, AttrId::kFftLength}) {
          if (!attrs.Has(id)) continue;
          Ints sizes = attrs.GetAs<Ints>(id);
          std::replace(sizes.begin(), sizes.end(), from, to);
          attrs.Set(id, std::move(sizes));
        }
        if (i->Is(Opcode::kSlice)) {
          SliceConfig slices = i->slices();
          for (SliceDimension& d : slices) {
            if (d.limit == from) d.limit = to;
          }
          attrs.Set(AttrId::kSlices, std::move(slices));
        }
        v = b.Op(i->opcode(), operands, attrs, called, i->info().Has(kDeclared) ? shape : Shape());
      }
      if (!v.ok()) return std::nullopt;
      values[i.get()] = *v;
    }
    absl::StatusOr<Computation*> done = b.Build(values.at(c->root()));
    if (!done.ok()) return std::nullopt;
    made[c] = *done;
  }
  out.module->set_entry(made.at(p.module->entry()));
  for (const Literal& a : p.arguments) out.arguments.push_back(Cut(a, Resized(a.shape(), from, to)));
  out.host_orders = p.host_orders;
  out.quantized = p.quantized;
  return out;
}

}  // namespace

// Removes aliases and layouts of removed elements or of those with another shape.
void FitConfig(const FuzzProgram& p, const std::vector<int64_t>& removed) {
  ModuleConfig& config = p.module->config();
  const Computation& entry = *p.module->entry();
  const Shape& result = entry.root()->shape();
  // `removed` is in decreasing order. -1: removed.
  auto place = [&](int64_t parameter) {
    for (const int64_t k : removed) {
      if (parameter == k) return int64_t{-1};
      if (parameter > k) --parameter;
    }
    return parameter;
  };
  std::vector<InputOutputAlias> aliases;
  for (InputOutputAlias a : config.input_output_aliases) {
    a.parameter = place(a.parameter);
    const bool whole = a.output_index.empty();
    if (a.parameter < 0 || whole == result.IsTuple()) continue;
    if (!whole && a.output_index[0] >= result.tuple_size()) continue;
    const Shape& out = whole ? result : result.tuple_shapes(a.output_index[0]);
    if (out == entry.parameter(a.parameter)->shape()) aliases.push_back(std::move(a));
  }
  config.input_output_aliases = std::move(aliases);
  std::vector<BufferDonor> donors;
  for (BufferDonor d : config.buffer_donors) {
    d.parameter = place(d.parameter);
    if (d.parameter >= 0) donors.push_back(std::move(d));
  }
  config.buffer_donors = std::move(donors);
  if (!config.parameter_layouts.empty()) {
    for (const int64_t k : removed) config.parameter_layouts.erase(config.parameter_layouts.begin() + k);
    for (size_t k = 0; k < entry.parameters().size(); ++k) {
      Shape shape = entry.parameter(static_cast<int64_t>(k))->shape();
      shape.set_row_major();
      if (k >= config.parameter_layouts.size()) config.parameter_layouts.push_back(shape);
      if (!(config.parameter_layouts[k] == shape)) config.parameter_layouts[k] = shape;
    }
  }
  if (!(config.result_layout == result)) config.result_layout = Shape();
}

bool RemoveUnused(FuzzProgram& p) {
  if (!p.schedule.empty()) return RemoveUnusedScheduled(p);
  Computation* entry = p.module->entry();
  entry->SortTopologically();
  for (Computation* c : p.module->PostOrder()) c->RemoveDead();
  p.module->RemoveUnreachableComputations();
  std::vector<int64_t> removed;
  for (int64_t k = static_cast<int64_t>(entry->parameters().size()) - 1; k >= 0; --k) {
    if (!entry->parameter(k)->users().empty() || entry->root() == entry->parameter(k)) continue;
    if (!entry->RemoveParameter(k).ok()) return false;
    removed.push_back(k);
    p.arguments.erase(p.arguments.begin() + k);
    if (k < static_cast<int64_t>(p.host_orders.size())) p.host_orders.erase(p.host_orders.begin() + k);
  }
  FitConfig(p, removed);
  // A result with a bounded dimension is not compared.
  bool bounded = false;
  ForEachLeaf(entry->root()->shape(), [&](const Shape& leaf, const std::vector<int64_t>&) {
    bounded = bounded || (leaf.IsArray() && leaf.HasDynamicDimensions());
  });
  if (bounded) return false;
  return VerifyModule(*p.module).ok();
}

// Most differences are caused by a single operation, which is found without removing the others one by one.
Candidates SingleOperation(const FuzzProgram& p) {
  Candidates all;
  const std::vector<Instruction*> order = p.module->entry()->Snapshot();
  auto computes = [](const Instruction* i) { return !i->info().Has(kNoOp); };
  if (std::count_if(order.begin(), order.end(), computes) <= 1) return all;  // there is only one already
  const auto bounded = BoundAll(p);
  if (!bounded.has_value()) return all;
  for (size_t n = 0; n < order.size(); ++n) {
    if (!computes(order[n])) continue;
    FuzzProgram c = Returning(p, n);
    std::vector<Instruction*> copies = c.module->entry()->Snapshot();
    absl::flat_hash_map<const Instruction*, const Instruction*> original;
    for (size_t k = 0; k < copies.size(); ++k) original[copies[k]] = order[k];
    bool changed = order[n] != p.module->entry()->root();
    auto as_argument = [&](Instruction* user) {
      for (int64_t o = 0; o < user->operand_count(); ++o) {
        Instruction* from = user->operand(o);
        if (from->Is(Opcode::kParameter) || from->Is(Opcode::kConstant) || !IsPlainArray(from->shape())) continue;
        InstructionSpec spec;
        spec.opcode = Opcode::kParameter;
        spec.shape = from->shape().WithoutLayout();
        spec.attrs.Set(AttrId::kParameterNumber, static_cast<int64_t>(c.arguments.size()));
        user->ReplaceOperand(o, c.module->entry()->Add(std::move(spec)));
        changed = true;
        c.arguments.push_back(bounded->at(original.at(from)).value);
      }
    };
    Instruction* single = copies[n];
    as_argument(single);
    for (Instruction* o : std::vector<Instruction*>(single->operands().begin(), single->operands().end())) {
      if (o->Is(Opcode::kTuple)) as_argument(o);
    }
    if (changed) all.push_back(std::move(c));
  }
  return all;
}

Candidates FewerResults(const FuzzProgram& p) {
  Candidates all;
  Instruction* root = p.module->entry()->root();
  if (!root->Is(Opcode::kTuple) || root->operand_count() < 1) return all;
  const std::vector<Instruction*> order = p.module->entry()->Snapshot();
  auto place = [&](const Instruction* i) {
    return static_cast<size_t>(std::find(order.begin(), order.end(), i) - order.begin());
  };
  for (int64_t k = 0; k < root->operand_count(); ++k) {
    if (IsPlainArray(root->operand(k)->shape())) all.push_back(Returning(p, place(root->operand(k))));
  }
  // No single one: all except one.
  for (int64_t k = 0; k < root->operand_count() && root->operand_count() > 1; ++k) {
    FuzzProgram c = Copy(p);
    Instruction* tuple = c.module->entry()->root();
    std::vector<Instruction*> rest;
    std::vector<Shape> shapes;
    for (int64_t e = 0; e < tuple->operand_count(); ++e) {
      if (e == k) continue;
      rest.push_back(tuple->operand(e));
      shapes.push_back(tuple->operand(e)->shape());
    }
    c.module->entry()->set_root(Make(c.module->entry(), nullptr, Opcode::kTuple, Shape::Tuple(shapes), rest));
    all.push_back(std::move(c));
  }
  return all;
}

Candidates EarlierResult(const FuzzProgram& p) {
  Candidates all;
  const std::vector<Instruction*> order = p.module->entry()->Snapshot();
  for (size_t n = 0; n < order.size(); ++n) {
    if (order[n] == p.module->entry()->root() || order[n]->Is(Opcode::kParameter) || order[n]->Is(Opcode::kConstant)) {
      continue;
    }
    if (IsPlainArray(order[n]->shape())) all.push_back(Returning(p, n));
  }
  return all;
}

Candidates ValuesAsArguments(const FuzzProgram& p) {
  Candidates all;
  const auto bounded = BoundAll(p);
  if (!bounded.has_value()) return all;
  const std::vector<Instruction*> order = p.module->entry()->Snapshot();
  for (size_t n = order.size(); n > 0; --n) {
    const Instruction* i = order[n - 1];
    if (i->Is(Opcode::kParameter) || i == p.module->entry()->root() || !IsPlainArray(i->shape())) continue;
    // Constants are simple already, and some defects need them.
    if (i->Is(Opcode::kConstant) || i->Is(Opcode::kIota)) continue;
    FuzzProgram c = Copy(p);
    Instruction* from = At(c, n - 1);
    InstructionSpec spec;
    spec.opcode = Opcode::kParameter;
    spec.shape = from->shape().WithoutLayout();
    spec.attrs.Set(AttrId::kParameterNumber, static_cast<int64_t>(c.arguments.size()));
    from->ReplaceAllUsesWith(c.module->entry()->Add(std::move(spec)));
    c.arguments.push_back(bounded->at(i).value);
    all.push_back(std::move(c));
  }
  return all;
}

Candidates WithoutOperation(const FuzzProgram& p) {
  Candidates all;
  // Not in the computations of reductions, sorts and scatters, which must stay associative, or orders; nor in those
  // that are sent in another form.
  const std::set<const Computation*> combining = CombiningComputations(p);
  const std::vector<Computation*> order = p.module->PostOrder();
  const size_t computations = order.size();
  for (size_t k = computations; k > 0; --k) {
    if (combining.count(order[k - 1]) > 0) continue;
    const std::vector<Instruction*> steps = order[k - 1]->Snapshot();
    for (size_t n = steps.size(); n > 0; --n) {
      for (int64_t o = 0; o < steps[n - 1]->operand_count(); ++o) {
        if (!(steps[n - 1]->operand(o)->shape() == steps[n - 1]->shape())) continue;
        FuzzProgram c = Copy(p);
        const std::vector<Computation*> copies = c.module->PostOrder();
        if (copies.size() != computations) continue;
        Instruction* i = copies[k - 1]->Snapshot()[n - 1];
        i->ReplaceAllUsesWith(i->operand(o));
        all.push_back(std::move(c));
      }
    }
  }
  return all;
}

Candidates PlainHandling(const FuzzProgram& p) {
  Candidates all;
  auto without = [&](bool is_there, const std::function<void(FuzzProgram&)>& change) {
    if (!is_there) return;
    FuzzProgram c = Copy(p);
    change(c);
    all.push_back(std::move(c));
  };
  const ModuleConfig& config = p.module->config();
  without(std::any_of(p.host_orders.begin(), p.host_orders.end(),
                      [](const HostOrder& o) { return !o.minor_to_major.empty() || !o.tile.empty() || o.kept; }),
          [](FuzzProgram& c) { c.host_orders.clear(); });
  without(!config.parameter_layouts.empty(), [](FuzzProgram& c) { c.module->config().parameter_layouts.clear(); });
  without(config.result_layout.element_type() != PrimitiveType::kInvalid,
          [](FuzzProgram& c) { c.module->config().result_layout = Shape(); });
  without(!config.input_output_aliases.empty(),
          [](FuzzProgram& c) { c.module->config().input_output_aliases.clear(); });
  without(!config.buffer_donors.empty(), [](FuzzProgram& c) { c.module->config().buffer_donors.clear(); });
  without(GetDevices(*p.module).count() > 1,
          [](FuzzProgram& c) { c.module->config().num_replicas = c.module->config().num_partitions = 1; });
  return all;
}

Candidates SmallerDimensions(const FuzzProgram& p) {
  Candidates all;
  std::set<int64_t> sizes;
  for (const auto& i : p.module->entry()->instructions()) {
    if (!i->shape().IsArray()) continue;
    for (const int64_t d : i->shape().dimensions()) sizes.insert(d);
  }
  for (auto it = sizes.rbegin(); it != sizes.rend(); ++it) {
    std::set<int64_t> targets = {1, 2, *it / 2, *it - 1};
    for (const int64_t to : targets) {
      if (to < 1 || to >= *it) continue;
      if (std::optional<FuzzProgram> c = Resize(p, *it, to); c.has_value()) all.push_back(*std::move(c));
    }
  }
  return all;
}

Candidates SimplerArguments(const FuzzProgram& p) {
  Candidates all;
  for (size_t k = 0; k < p.arguments.size(); ++k) {
    const Literal& a = p.arguments[k];
    if (a.num_elements() == 0) continue;
    const int64_t width = ByteWidth(a.shape().element_type());
    std::vector<Literal> ways;
    // All zeros; all equal to one of the first elements.
    ways.emplace_back(a.shape());
    for (int64_t e = 0; e < std::min<int64_t>(a.num_elements(), 4); ++e) {
      Literal same(a.shape());
      std::byte* to = same.mutable_bytes();
      for (int64_t n = 0; n < a.num_elements(); ++n) {
        std::memcpy(to + n * width, a.bytes() + e * width, static_cast<size_t>(width));
      }
      ways.push_back(std::move(same));
    }
    for (Literal& way : ways) {
      if (a.IsAllEqual() || way == a) break;
      FuzzProgram c = Copy(p);
      c.arguments[k] = std::move(way);
      all.push_back(std::move(c));
    }
  }
  return all;
}

}  // namespace backplane::cli::fuzz
