#include "sdk/compiler/buffer_assignment.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/analysis/leaves.h"
#include "core/passes/calls.h"
#include "core/types/status_macros.h"

namespace backplane::compiler {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMaxTemporaryBytes = int64_t{1} << 46;

using ValueId = int32_t;
constexpr ValueId kNoValue = -1;

struct Value {
  const Instruction* definer = nullptr;  // null: parameter, loop state or branch result
  int64_t leaf = 0;
  int64_t bytes = 0;
  int64_t def = 0, last = 0;
  int32_t cls = 0;
};

struct Class {
  std::vector<ValueId> values;
  std::optional<Slot> pinned;  // argument, output or constant
  bool writable = true;
  int64_t bytes = 0;
  int64_t hull_begin = std::numeric_limits<int64_t>::max(), hull_end = -1;
  SlotId slot = kNoSlot;
};

// A buffer that a value must end up in: a loop's state, a branch's result, the program's output.
struct Sink {
  const Computation* computation;  // whose end it is
  ValueId source;
  ValueId target;  // loop state or branch result; kNoValue for outputs
  int64_t at;      // time of the copy, where one is needed
  int32_t output = -1;
};

struct LoopLeaf {
  const Instruction* loop;
  ValueId init, state, result;
};

int64_t LeafBytes(const Shape& s) { return s.IsArray() ? s.byte_size() : 0; }

class Assigner {
 public:
  Assigner(const Module& module, const InPlaceOracle& oracle) : module_(module), oracle_(oracle) {}

  absl::StatusOr<BufferAssignment> Run() {
    RETURN_IF_ERROR(MakeArguments());
    const Computation* entry = module_.entry();
    RETURN_IF_ERROR(Walk(entry));
    const int64_t end = Tick();
    const std::vector<ValueId>& root = values_of_.at(entry->root());
    first_output_sink_ = sinks_.size();
    for (size_t k = 0; k < root.size(); ++k) {
      if (root[k] != kNoValue) Use(root[k], end);
      sinks_.push_back({entry, root[k], kNoValue, end, static_cast<int32_t>(k)});
    }
    MakeClasses();
    RETURN_IF_ERROR(MergeOutputs());
    for (const Sink& s : sinks_) {
      if (s.output < 0) TryMergeSink(s);
    }
    for (const LoopLeaf& l : loop_leaves_) TryMerge(values_[l.init].cls, values_[l.state].cls);
    MergeInPlace();
    RETURN_IF_ERROR(AssignSlots());
    MakeCopies();
    return std::move(result_);
  }

 private:
  int64_t Tick() { return ++clock_; }
  void Use(ValueId v, int64_t at) { values_[v].last = std::max(values_[v].last, at); }

  ValueId NewValue(const Instruction* definer, int64_t leaf, const Shape& shape, int64_t def) {
    if (!shape.IsArray()) return kNoValue;
    values_.push_back({definer, leaf, LeafBytes(shape), def, def, 0});
    return static_cast<ValueId>(values_.size() - 1);
  }

  std::vector<ValueId> NewLeaves(const Instruction* definer, const Shape& shape, int64_t def) {
    return NewLeaves(definer, shape, def, {}, {});
  }
  // The leaves that are marked are those of `old` instead of new values.
  std::vector<ValueId> NewLeaves(const Instruction* definer, const Shape& shape, int64_t def,
                                 const std::vector<ValueId>& old, const std::vector<bool>& keeps_old) {
    std::vector<ValueId> leaves;
    ForEachLeaf(shape, [&](const Shape& s, const std::vector<int64_t>&) {
      const size_t k = leaves.size();
      leaves.push_back(k < keeps_old.size() && keeps_old[k] ? old[k]
                                                            : NewValue(definer, static_cast<int64_t>(k), s, def));
    });
    return leaves;
  }

  absl::Status MakeArguments() {
    for (const Instruction* p : module_.entry()->parameters()) {
      std::vector<ValueId> leaves = NewLeaves(nullptr, p->shape(), 0);
      for (ValueId v : leaves) arguments_.push_back(v);
      parameter_values_[p] = std::move(leaves);
    }
    return absl::OkStatus();
  }

  absl::Status Walk(const Computation* computation) {
    for (const auto& owned : computation->instructions()) RETURN_IF_ERROR(Visit(owned.get()));
    return absl::OkStatus();
  }

  void UseOperands(const Instruction* i, int64_t at) {
    for (const Instruction* operand : i->operands()) {
      for (ValueId v : values_of_.at(operand)) {
        if (v != kNoValue) Use(v, at);
      }
    }
  }

  absl::Status Visit(const Instruction* i) {
    const int64_t at = Tick();
    std::vector<ValueId> leaves;
    switch (i->opcode()) {
      case Opcode::kParameter:
        leaves = parameter_values_.at(i);
        break;
      case Opcode::kConstant: {
        leaves = NewLeaves(i, i->shape(), 0);
        constants_.emplace_back(i, leaves[0]);
        break;
      }
      case Opcode::kTuple:
        for (const Instruction* operand : i->operands()) {
          const auto& o = values_of_.at(operand);
          leaves.insert(leaves.end(), o.begin(), o.end());
        }
        break;
      case Opcode::kGetTupleElement: {
        const Shape& tuple = i->operand(0)->shape();
        size_t first = 0, count = 0;
        for (int64_t e = 0; e <= i->tuple_index(); ++e) {
          first += count;
          count = 0;
          ForEachLeaf(tuple.tuple_shapes(e), [&](const Shape&, const std::vector<int64_t>&) { ++count; });
        }
        const auto& o = values_of_.at(i->operand(0));
        leaves.assign(o.begin() + first, o.begin() + first + count);
        break;
      }
      case Opcode::kAfterAll:
        leaves = {kNoValue};
        break;
      case Opcode::kWhile:
        RETURN_IF_ERROR(VisitWhile(i, at, leaves));
        break;
      case Opcode::kConditional:
        RETURN_IF_ERROR(VisitConditional(i, at, leaves));
        break;
      case Opcode::kCall:
        if (IsMarkedNotInlineable(*i)) {
          RETURN_IF_ERROR(VisitCall(i, leaves));
          break;
        }
        [[fallthrough]];
      default:
        if (i->Is(Opcode::kBitcast) || i->Is(Opcode::kReshape) || i->info().Has(kForwardsOperand)) {
          leaves = values_of_.at(i->operand(0));
          break;
        }
        UseOperands(i, at);
        leaves = NewLeaves(i, i->shape(), at);
    }
    values_of_[i] = std::move(leaves);
    return absl::OkStatus();
  }

  // Returns, for each element of the state, whether the body returns it as it got it. Such an element is not copied:
  // the loop reads the initial value, which is the result as well. A scan passes the arrays that it reads in this way.
  const std::vector<bool>& FindUnchangedElements(const Computation* body) {
    if (auto known = unchanged_.find(body); known != unchanged_.end()) return known->second;
    const Instruction* root = body->root();
    std::vector<bool> unchanged;
    if (root->shape().IsTuple()) {
      for (int64_t e = 0; e < root->shape().tuple_size(); ++e) {
        const Instruction* x = root->Is(Opcode::kTuple) ? root->operand(e) : nullptr;
        // An inner loop may pass it on.
        while (x != nullptr && x->Is(Opcode::kGetTupleElement) && x->operand(0)->Is(Opcode::kWhile)) {
          const Instruction* inner = x->operand(0);
          const bool passes = FindUnchangedElements(inner->called(1))[static_cast<size_t>(x->tuple_index())];
          x = passes && inner->operand(0)->Is(Opcode::kTuple) ? inner->operand(0)->operand(x->tuple_index()) : nullptr;
        }
        unchanged.push_back(root == body->parameter(0) ||
                            (x != nullptr && x->Is(Opcode::kGetTupleElement) && x->operand(0) == body->parameter(0) &&
                             x->tuple_index() == e));
      }
    } else {
      unchanged.push_back(root == body->parameter(0));
    }
    return unchanged_.emplace(body, std::move(unchanged)).first->second;
  }

  absl::Status VisitWhile(const Instruction* loop, int64_t at, std::vector<ValueId>& leaves) {
    const Computation* condition = loop->called(0);
    const Computation* body = loop->called(1);
    if (!visited_.insert({condition, true}).second || !visited_.insert({body, true}).second) {
      return absl::InternalError(absl::StrCat(loop->name(), ": its computations are called elsewhere too"));
    }
    UseOperands(loop, at);
    const std::vector<ValueId> init = values_of_.at(loop->operand(0));
    std::vector<bool> unchanged;  // by leaf
    const std::vector<bool>& unchanged_elements = FindUnchangedElements(body);
    for (size_t e = 0; e < unchanged_elements.size(); ++e) {
      const Shape& shape = loop->shape();
      ForEachLeaf(shape.IsTuple() ? shape.tuple_shapes(static_cast<int64_t>(e)) : shape,
                  [&](const Shape&, const std::vector<int64_t>&) { unchanged.push_back(unchanged_elements[e]); });
    }
    std::vector<ValueId> state = NewLeaves(nullptr, loop->shape(), at, init, unchanged);
    parameter_values_[condition->parameter(0)] = state;
    parameter_values_[body->parameter(0)] = state;
    RETURN_IF_ERROR(Walk(condition));
    const int64_t condition_end = Tick();
    Use(values_of_.at(condition->root())[0], condition_end);
    // Where the condition says no, the state is the loop's result: whoever reads an element last, it lives until then.
    for (ValueId v : state) {
      if (v != kNoValue) Use(v, condition_end);
    }
    RETURN_IF_ERROR(Walk(body));
    const int64_t end = Tick();
    leaves = NewLeaves(nullptr, loop->shape(), end, init, unchanged);
    const std::vector<ValueId>& root = values_of_.at(body->root());
    for (size_t k = 0; k < state.size(); ++k) {
      if (state[k] == kNoValue) continue;
      Use(root[k], end);
      if (unchanged[k]) continue;
      loop_leaves_.push_back({loop, init[k], state[k], leaves[k]});
      if (root[k] != state[k]) sinks_.push_back({body, root[k], state[k], end});
    }
    return absl::OkStatus();
  }

  // A call runs the steps of its body: the body reads the caller's values, and its results are the caller's.
  absl::Status VisitCall(const Instruction* call, std::vector<ValueId>& leaves) {
    const Computation* body = call->called(0);
    if (!visited_.insert({body, true}).second) {
      return absl::InternalError(absl::StrCat(call->name(), ": its computation is called elsewhere too"));
    }
    for (int64_t k = 0; k < call->operand_count(); ++k) {
      parameter_values_[body->parameter(k)] = values_of_.at(call->operand(k));
    }
    RETURN_IF_ERROR(Walk(body));
    leaves = values_of_.at(body->root());
    return absl::OkStatus();
  }

  absl::Status VisitConditional(const Instruction* i, int64_t at, std::vector<ValueId>& leaves) {
    for (ValueId v : values_of_.at(i->operand(0))) Use(v, at);
    std::vector<std::pair<const Computation*, int64_t>> ends;
    for (size_t b = 0; b < i->called().size(); ++b) {
      const Computation* branch = i->called(static_cast<int64_t>(b));
      if (!visited_.insert({branch, true}).second) {
        return absl::InternalError(absl::StrCat(i->name(), ": its branches are called elsewhere too"));
      }
      const auto& operand = values_of_.at(i->operand(static_cast<int64_t>(b) + 1));
      for (ValueId v : operand) {
        if (v != kNoValue) Use(v, at);
      }
      parameter_values_[branch->parameter(0)] = operand;
      RETURN_IF_ERROR(Walk(branch));
      const int64_t end = Tick();
      for (ValueId v : values_of_.at(branch->root())) {
        if (v != kNoValue) Use(v, end);
      }
      ends.emplace_back(branch, end);
    }
    const int64_t end = Tick();
    leaves = NewLeaves(nullptr, i->shape(), end);
    for (auto& [branch, branch_end] : ends) {
      const std::vector<ValueId>& root = values_of_.at(branch->root());
      for (size_t k = 0; k < leaves.size(); ++k) {
        if (leaves[k] != kNoValue) sinks_.push_back({branch, root[k], leaves[k], branch_end});
      }
    }
    return absl::OkStatus();
  }

  // ---- classes

  void MakeClasses() {
    classes_.resize(values_.size());
    for (size_t v = 0; v < values_.size(); ++v) {
      values_[v].cls = static_cast<int32_t>(v);
      classes_[v].values = {static_cast<ValueId>(v)};
      classes_[v].bytes = values_[v].bytes;
    }
    for (size_t a = 0; a < arguments_.size(); ++a) {
      if (arguments_[a] == kNoValue) continue;
      Class& c = classes_[arguments_[a]];
      c.pinned = Slot{Slot::Kind::kArgument, static_cast<int32_t>(a), 0, c.bytes};
      c.writable = false;
    }
    for (size_t k = 0; k < constants_.size(); ++k) {
      Class& c = classes_[constants_[k].second];
      c.pinned = Slot{Slot::Kind::kConstant, static_cast<int32_t>(k), 0, c.bytes};
      c.writable = false;
      result_.constants.push_back(constants_[k].first);
    }
    for (const LoopLeaf& l : loop_leaves_) Merge(values_[l.state].cls, values_[l.result].cls);
  }

  void Merge(int32_t into, int32_t from) {
    if (into == from) return;
    Class& a = classes_[into];
    Class& b = classes_[from];
    for (ValueId v : b.values) values_[v].cls = into;
    a.values.insert(a.values.end(), b.values.begin(), b.values.end());
    if (b.pinned) {
      a.pinned = b.pinned;
      a.writable = b.writable;
    }
    a.bytes = std::max(a.bytes, b.bytes);
    b = Class{};
    if (auto outputs = outputs_of_class_.find(from); outputs != outputs_of_class_.end()) {
      const std::vector<size_t> moved = std::move(outputs->second);
      outputs_of_class_.erase(outputs);
      for (size_t k : moved) {
        if (output_class_[k] == from) SetOutputClass(k, into);
      }
    }
  }

  void SetOutputClass(size_t output, int32_t cls) {
    output_class_[output] = cls;
    outputs_of_class_[cls].push_back(output);
  }

  // Whether `ending` may hand its memory to `starting`, which is defined where `ending` is used last.
  bool CanReuseMemory(const Value& ending, ValueId ending_id, const Value& starting) const {
    if (starting.definer == nullptr) return true;  // loop state takes its initial value, results take the state
    if (starting.bytes > ending.bytes) return false;
    bool found = false;
    for (int64_t k = 0; k < starting.definer->operand_count(); ++k) {
      const auto& leaves = values_of_.at(starting.definer->operand(k));
      for (ValueId v : leaves) {
        if (v != ending_id) continue;
        if (leaves.size() != 1 || !oracle_(starting.definer, k, starting.leaf)) return false;
        found = true;
      }
    }
    return found;
  }

  bool Compatible(const Class& a, const Class& b) const {
    for (ValueId x : a.values) {
      for (ValueId y : b.values) {
        const Value& u = values_[x];
        const Value& v = values_[y];
        if (u.last < v.def || v.last < u.def) continue;
        if (u.last == v.def && u.def < v.def && CanReuseMemory(u, x, v)) continue;
        if (v.last == u.def && v.def < u.def && CanReuseMemory(v, y, u)) continue;
        return false;
      }
    }
    return true;
  }

  bool TryMerge(int32_t a, int32_t b) {
    if (a == b) return true;
    const Class& x = classes_[a];
    const Class& y = classes_[b];
    if (x.pinned && y.pinned) return false;
    const Class* pinned = x.pinned ? &x : y.pinned ? &y : nullptr;
    const Class* other = x.pinned ? &y : &x;
    if (pinned && (!pinned->writable || other->bytes > pinned->bytes)) return false;
    if (!Compatible(x, y)) return false;
    Merge(a, b);
    return true;
  }

  void TryMergeSink(const Sink& s) {
    if (s.source == s.target) return;
    TryMerge(values_[s.target].cls, values_[s.source].cls);
  }

  absl::Status MergeOutputs() {
    const EntryLeaves leaves(*module_.entry());
    const size_t outputs = static_cast<size_t>(leaves.output_count());
    result_.output_alias.assign(outputs, -1);
    output_class_.assign(outputs, -1);
    std::vector<bool> taken(arguments_.size(), false);
    auto give = [&](size_t k, int32_t a) {
      taken[a] = true;
      result_.output_alias[k] = a;
      SetOutputClass(k, values_[arguments_[a]].cls);
      classes_[output_class_[k]].writable = true;
    };
    for (const InputOutputAlias& alias : module_.config().input_output_aliases) {
      const std::optional<int64_t> output = leaves.FindOutput(alias.output_index);
      const std::optional<int64_t> argument = leaves.FindArgument(alias.parameter, alias.parameter_index);
      if (!output || !argument) {
        return absl::InvalidArgumentError(absl::StrCat(module_.name(),
                                                       ": input_output_alias names output or parameter ",
                                                       alias.parameter, " that does not exist"));
      }
      const size_t k = static_cast<size_t>(*output), a = static_cast<size_t>(*argument);
      const Sink& sink = sinks_[first_output_sink_ + k];
      if (taken[a] || sink.source == kNoValue || arguments_[a] == kNoValue ||
          values_[sink.source].bytes != values_[arguments_[a]].bytes) {
        continue;
      }
      give(k, static_cast<int32_t>(a));
    }
    // A donated argument that no output is paired with serves the first output of its size.
    absl::flat_hash_map<int64_t, std::vector<size_t>> outputs_by_bytes;  // the first ones last
    if (!module_.config().buffer_donors.empty()) {
      for (size_t k = output_class_.size(); k-- > 0;) {
        const Sink& s = sinks_[first_output_sink_ + k];
        if (s.source != kNoValue && output_class_[k] < 0 && values_[s.source].bytes > 0)
          outputs_by_bytes[values_[s.source].bytes].push_back(k);
      }
    }
    for (const BufferDonor& d : module_.config().buffer_donors) {
      const std::optional<int64_t> argument = leaves.FindArgument(d.parameter, d.parameter_index);
      if (!argument) continue;
      const size_t a = static_cast<size_t>(*argument);
      if (arguments_[a] == kNoValue || taken[a]) continue;
      const auto of_its_size = outputs_by_bytes.find(values_[arguments_[a]].bytes);
      if (of_its_size == outputs_by_bytes.end() || of_its_size->second.empty()) continue;
      give(of_its_size->second.back(), static_cast<int32_t>(a));
      of_its_size->second.pop_back();
    }
    for (const Sink& s : sinks_) {
      if (s.output < 0 || s.source == kNoValue) continue;
      const int32_t k = s.output;
      if (output_class_[k] < 0) {
        classes_.emplace_back();
        Class& c = classes_.back();
        c.bytes = values_[s.source].bytes;
        c.pinned = Slot{Slot::Kind::kOutput, k, 0, c.bytes};
        SetOutputClass(static_cast<size_t>(k), static_cast<int32_t>(classes_.size() - 1));
      }
    }
    for (const Sink& s : sinks_) {
      if (s.output < 0 || s.source == kNoValue) continue;
      const int32_t target = output_class_[s.output];
      // A value that is smaller than the class it lives in cannot be an output's memory as it stands.
      if (classes_[values_[s.source].cls].bytes == classes_[target].bytes) TryMerge(target, values_[s.source].cls);
    }
    return absl::OkStatus();
  }

  void MergeInPlace() {
    for (size_t v = 0; v < values_.size(); ++v) {
      const Value& value = values_[v];
      if (value.definer == nullptr || value.definer->opcode() == Opcode::kConstant) continue;
      for (int64_t k = 0; k < value.definer->operand_count(); ++k) {
        const auto& leaves = values_of_.at(value.definer->operand(k));
        if (leaves.size() != 1 || leaves[0] == kNoValue) continue;
        const Value& operand = values_[leaves[0]];
        if (operand.cls == value.cls || operand.last != value.def || operand.bytes < value.bytes) continue;
        if (!oracle_(value.definer, k, value.leaf)) continue;
        if (TryMerge(operand.cls, value.cls)) break;
      }
    }
  }

  // ---- Slots.

  absl::Status AssignSlots() {
    std::vector<int32_t> temporaries;
    for (size_t c = 0; c < classes_.size(); ++c) {
      Class& k = classes_[c];
      if (k.values.empty() && !k.pinned) continue;
      for (ValueId v : k.values) {
        k.hull_begin = std::min(k.hull_begin, values_[v].def);
        k.hull_end = std::max(k.hull_end, values_[v].last);
      }
      k.slot = static_cast<SlotId>(result_.slots.size());
      result_.slots.push_back(k.pinned ? *k.pinned : Slot{Slot::Kind::kTemporary, 0, 0, k.bytes});
      if (!k.pinned) temporaries.push_back(static_cast<int32_t>(c));
    }
    // A copy into loop state or a branch's result happens at the end of body or branch: the hull must cover that.
    for (const Sink& s : sinks_) {
      if (s.output >= 0 || s.source == kNoValue || values_[s.source].cls == values_[s.target].cls) continue;
      Class& target = classes_[values_[s.target].cls];
      target.hull_begin = std::min(target.hull_begin, s.at);
      target.hull_end = std::max(target.hull_end, s.at);
    }
    // Largest first, each at the lowest offset that no overlapping neighbour occupies.
    std::stable_sort(temporaries.begin(), temporaries.end(),
                     [&](int32_t a, int32_t b) { return classes_[a].bytes > classes_[b].bytes; });
    struct Placed {
      int64_t begin, end;            // bytes
      int64_t hull_begin, hull_end;  // times
    };
    std::vector<Placed> placed;  // by their first byte
    int64_t total = 0;
    for (int32_t t : temporaries) {
      Class& c = classes_[t];
      const int64_t size = (c.bytes + kTailPadding + kAlignment - 1) / kAlignment * kAlignment;
      int64_t offset = 0;
      for (const Placed& p : placed) {
        if (p.hull_end < c.hull_begin || c.hull_end < p.hull_begin) continue;
        if (p.begin - offset >= size) break;
        offset = std::max(offset, p.end);
      }
      result_.slots[c.slot].offset = offset;
      total = std::max(total, offset + size);
      if (total > kMaxTemporaryBytes) {
        return absl::ResourceExhaustedError(
            absl::StrCat(module_.name(), ": temporary memory would exceed ", kMaxTemporaryBytes, " bytes"));
      }
      placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                     [](int64_t o, const Placed& p) { return o < p.begin; }),
                    {offset, offset + size, c.hull_begin, c.hull_end});
    }
    result_.temporary_bytes = total;
    for (const auto& [instruction, leaves] : values_of_) {
      std::vector<SlotId>& slots = result_.instruction_slots[instruction];
      for (ValueId v : leaves) slots.push_back(v == kNoValue ? kNoSlot : classes_[values_[v].cls].slot);
    }
    for (int32_t c : output_class_) result_.output_slots.push_back(c < 0 ? kNoSlot : classes_[c].slot);
    return absl::OkStatus();
  }

  SlotId SlotOf(ValueId v) const { return classes_[values_[v].cls].slot; }

  void MakeCopies() {
    for (const LoopLeaf& l : loop_leaves_) {
      if (SlotOf(l.init) == SlotOf(l.state)) continue;
      result_.loop_entry_copies[l.loop].push_back({SlotOf(l.init), SlotOf(l.state), values_[l.state].bytes});
    }
    // In program order, not in the order of a hash table: slots are made on the way.
    const Instruction* last = nullptr;
    for (const LoopLeaf& l : loop_leaves_) {
      auto copies = result_.loop_entry_copies.find(l.loop);
      if (l.loop == last || copies == result_.loop_entry_copies.end()) continue;
      copies->second = Sequentialize(std::move(copies->second));
      last = l.loop;
    }
    absl::flat_hash_map<const Computation*, std::vector<SlotCopy>> pending;
    for (const Sink& s : sinks_) {
      if (s.source == kNoValue) continue;
      const SlotId to = s.output >= 0 ? classes_[output_class_[s.output]].slot : SlotOf(s.target);
      if (SlotOf(s.source) != to) pending[s.computation].push_back({SlotOf(s.source), to, values_[s.source].bytes});
    }
    for (const Sink& s : sinks_) {
      auto copies = pending.find(s.computation);
      if (copies == pending.end()) continue;
      result_.end_copies[s.computation] = Sequentialize(std::move(copies->second));
      pending.erase(copies);
    }
  }

  // Copies that happen at once, as a sequence: one whose target nobody still has to read goes first; a cycle is cut by
  // saving one source aside, in temporary memory past everything else.
  std::vector<SlotCopy> Sequentialize(std::vector<SlotCopy> copies) {
    std::vector<SlotCopy> ordered;
    int64_t scratch = (result_.temporary_bytes + kAlignment - 1) / kAlignment * kAlignment;
    while (!copies.empty()) {
      auto free = std::find_if(copies.begin(), copies.end(), [&](const SlotCopy& c) {
        return std::none_of(copies.begin(), copies.end(),
                            [&](const SlotCopy& o) { return &o != &c && o.from == c.to; });
      });
      if (free == copies.end()) {
        SlotCopy& cut = copies.front();
        const SlotId aside = static_cast<SlotId>(result_.slots.size());
        result_.slots.push_back({Slot::Kind::kTemporary, 0, scratch, cut.bytes});
        scratch += (cut.bytes + kTailPadding + kAlignment - 1) / kAlignment * kAlignment;
        result_.temporary_bytes = std::max(result_.temporary_bytes, scratch);
        ordered.push_back({cut.from, aside, cut.bytes});
        const SlotId saved = cut.from;
        for (SlotCopy& c : copies) {
          if (c.from == saved) c.from = aside;
        }
        continue;
      }
      ordered.push_back(*free);
      copies.erase(free);
    }
    return ordered;
  }

  const Module& module_;
  const InPlaceOracle& oracle_;
  BufferAssignment result_;
  int64_t clock_ = 0;
  std::vector<Value> values_;
  std::vector<Class> classes_;
  std::vector<ValueId> arguments_;
  std::vector<int32_t> output_class_;
  absl::flat_hash_map<int32_t, std::vector<size_t>> outputs_of_class_;  // the other way round
  size_t first_output_sink_ = 0;                                        // sinks of outputs stand together, in order
  std::vector<std::pair<const Instruction*, ValueId>> constants_;
  std::vector<Sink> sinks_;
  std::vector<LoopLeaf> loop_leaves_;
  std::map<const Computation*, std::vector<bool>> unchanged_;  // FindUnchangedElements
  absl::flat_hash_map<const Instruction*, std::vector<ValueId>> values_of_;
  absl::flat_hash_map<const Instruction*, std::vector<ValueId>> parameter_values_;
  absl::flat_hash_map<const Computation*, bool> visited_;
};

}  // namespace

absl::StatusOr<BufferAssignment> AssignBuffers(const Module& module, const InPlaceOracle& in_place) {
  return Assigner(module, in_place).Run();
}

std::string BufferAssignment::ToString() const {
  static constexpr const char* kKinds[] = {"argument", "output", "constant", "temporary"};
  std::string text = absl::StrCat("temporary bytes: ", temporary_bytes, "\n");
  for (size_t s = 0; s < slots.size(); ++s) {
    absl::StrAppend(&text, "slot ", s, ": ", kKinds[static_cast<int>(slots[s].kind)], " ",
                    slots[s].kind == Slot::Kind::kTemporary ? slots[s].offset : slots[s].index, ", ", slots[s].bytes,
                    " bytes\n");
  }
  return text;
}

}  // namespace backplane::compiler
