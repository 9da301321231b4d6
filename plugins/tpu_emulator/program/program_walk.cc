#include "plugins/tpu_emulator/program/program_walk.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/analysis/trip_count.h"
#include "plugins/tpu_emulator/program/layouts.h"

namespace backplane::tpu {
namespace {

using Value = std::vector<int>;  // the buffer of each leaf

int64_t LeafCount(const Shape& shape) {
  int64_t count = 0;
  ForEachLeaf(shape, [&](const Shape&, const std::vector<int64_t>&) { ++count; });
  return count;
}

// The number of the first leaf of element k.
int64_t FirstLeaf(const Shape& tuple, int64_t k) {
  int64_t first = 0;
  for (int64_t e = 0; e < k; ++e) first += LeafCount(tuple.tuple_shapes(e));
  return first;
}

class Walker {
 public:
  Walker(const Machine& machine, absl::Span<const int64_t> torus) : machine_(machine), torus_(torus) {}

  WalkedProgram Run(const Module& module) {
    const Computation& entry = *module.entry();
    std::vector<Value> arguments;
    for (const Instruction* p : entry.parameters()) {
      Value value;
      ForEachLeaf(p->shape(), [&](const Shape& leaf, const std::vector<int64_t>&) {
        value.push_back(leaf.IsArray() ? NewBuffer(*p, leaf, ScheduledBuffer::Kind::kArgument) : -1);
      });
      arguments.push_back(std::move(value));
    }
    Value results = Walk(entry, arguments, -1);
    const int64_t end = std::max<int64_t>(0, static_cast<int64_t>(out_.kernels.size()) - 1);
    AddResults(module, results);
    Settle(end);
    return std::move(out_);
  }

 private:
  using Kind = ScheduledBuffer::Kind;

  int64_t now() const { return static_cast<int64_t>(out_.kernels.size()); }

  int NewBuffer(const Instruction& from, const Shape& shape, Kind kind) {
    WalkedBuffer b;
    b.info.name = from.name();
    b.info.shape = shape.ToString(true);
    b.info.kind = kind;
    b.info.origin = OriginOf(from);
    b.info.padded_bytes = PaddedBytes(shape);
    b.info.unpadded_bytes = UnpaddedBytes(shape);
    b.info.first_kernel = b.info.last_kernel = now();
    b.used = true;
    out_.buffers.push_back(std::move(b));
    merged_into_.push_back(static_cast<int>(merged_into_.size()));
    return static_cast<int>(out_.buffers.size()) - 1;
  }

  int Find(int b) {
    if (b < 0) return b;
    while (merged_into_[b] != b) b = merged_into_[b] = merged_into_[merged_into_[b]];
    return b;
  }

  ScheduledBuffer& Info(int b) { return out_.buffers[Find(b)].info; }

  void Touch(int b, int64_t kernel) {
    if (b < 0) return;
    ScheduledBuffer& info = Info(b);
    info.first_kernel = std::min(info.first_kernel, kernel);
    info.last_kernel = std::max(info.last_kernel, kernel);
  }

  void Note(const std::string& note) {
    if (std::find(out_.notes.begin(), out_.notes.end(), note) == out_.notes.end()) out_.notes.push_back(note);
  }

  Value Walk(const Computation& c, absl::Span<const Value> parameters, int64_t loop) {
    for (const auto& owned : c.instructions()) {
      const Instruction& i = *owned;
      out_.values[&i] = ValueOf(i, parameters, loop);
    }
    return out_.values.at(c.root());
  }

  Value ValueOf(const Instruction& i, absl::Span<const Value> parameters, int64_t loop) {
    switch (i.opcode()) {
      case Opcode::kParameter:
        return parameters[static_cast<size_t>(i.parameter_number())];
      case Opcode::kConstant:
        if (!i.shape().IsArray() || i.shape().num_elements() <= 1) return NoBuffers(i);
        return {NewBuffer(i, i.shape(), Kind::kConstant)};
      case Opcode::kTuple: {
        Value value;
        for (const Instruction* o : i.operands()) {
          const Value& element = out_.values.at(o);
          value.insert(value.end(), element.begin(), element.end());
        }
        return value;
      }
      case Opcode::kGetTupleElement: {
        const Value& tuple = out_.values.at(i.operand(0));
        const int64_t first = FirstLeaf(i.operand(0)->shape(), i.tuple_index());
        return Value(tuple.begin() + first, tuple.begin() + first + LeafCount(i.shape()));
      }
      case Opcode::kBitcast:
      case Opcode::kOptimizationBarrier:
      case Opcode::kAddDependency:
      case Opcode::kDomain:
        return out_.values.at(i.operand(0));
      case Opcode::kWhile:
        return Loop(i, loop);
      case Opcode::kConditional:
        return Branch(i, loop);
      case Opcode::kCall: {
        std::vector<Value> arguments;
        for (const Instruction* o : i.operands()) arguments.push_back(out_.values.at(o));
        return Walk(*i.called(0), arguments, loop);
      }
      default:
        return IsKernel(i) ? Kernel(i, loop) : NoBuffers(i);
    }
  }

  static Value NoBuffers(const Instruction& i) { return Value(static_cast<size_t>(LeafCount(i.shape())), -1); }

  Value Kernel(const Instruction& i, int64_t loop) {
    WalkedKernel k;
    k.instruction = &i;
    k.work = Describe(i, machine_, torus_);
    k.loop = loop;
    const int64_t number = now();
    for (const std::string& note : k.work.notes) Note(note);
    for (const Instruction* o : i.operands()) {
      k.operands.push_back(out_.values.at(o));
      for (int b : k.operands.back()) Touch(b, number);
    }
    Value value;
    ForEachLeaf(i.shape(), [&](const Shape& leaf, const std::vector<int64_t>&) {
      if (!leaf.IsArray()) return value.push_back(-1);
      const size_t n = k.results.size();
      int b = k.work.results[n].in_place ? RoomToUpdate(i, k, n) : -1;
      if (b < 0) {
        b = NewBuffer(i, leaf, Kind::kTemporary);
        if (k.work.results[n].in_place) CopyFirst(k, n, PaddedBytes(leaf));
      }
      k.results.push_back(b);
      value.push_back(b);
    });
    out_.kernels.push_back(std::move(k));
    return value;
  }

  // The n-th operand that is updated in place, if its room may be taken.
  int RoomToUpdate(const Instruction& i, const WalkedKernel& k, size_t n) {
    for (size_t o = 0; o < k.operands.size(); ++o) {
      if (!k.work.operands[o].in_place || k.operands[o].size() != 1) continue;
      if (n-- > 0) continue;
      const int b = k.operands[o][0];
      const Instruction* from = i.operand(static_cast<int64_t>(o));
      const bool last = from->users().size() == 1 && !from->IsRoot();
      return b >= 0 && last && Info(b).kind == Kind::kTemporary ? b : -1;
    }
    return -1;
  }

  // What cannot be updated in place is copied as a whole.
  void CopyFirst(WalkedKernel& k, size_t n, int64_t bytes) {
    k.work.results[n].bytes = bytes;
    for (size_t o = 0; o < k.operands.size(); ++o) {
      if (!k.work.operands[o].in_place) continue;
      if (n-- == 0) k.work.operands[o].bytes = bytes;
    }
  }

  // ---- control flow

  Value Loop(const Instruction& i, int64_t around) {
    const Computation &condition = *i.called(0), &body = *i.called(1);
    const Value& init = out_.values.at(i.operand(0));
    std::vector<Shape> leaves;
    ForEachLeaf(i.shape(), [&](const Shape& leaf, const std::vector<int64_t>&) { leaves.push_back(leaf); });
    const bool flat = i.shape().IsTuple() && static_cast<int64_t>(leaves.size()) == i.shape().tuple_size() &&
                      body.root()->Is(Opcode::kTuple) && i.operand(0)->Is(Opcode::kTuple);
    Value state = init;
    std::vector<bool> unchanged(leaves.size(), false);
    for (size_t k = 0; k < leaves.size(); ++k) {
      if (init[k] < 0) continue;
      const int64_t index = static_cast<int64_t>(k);
      if (flat) {
        const Instruction* next = body.root()->operand(index);
        unchanged[k] =
            next->Is(Opcode::kGetTupleElement) && next->tuple_index() == index && next->operand(0) == body.parameter(0);
        const Instruction* first = i.operand(0)->operand(index);
        const bool mine = first->users().size() == 1 && i.operand(0)->users().size() == 1 &&
                          Info(init[k]).kind == Kind::kTemporary && std::count(init.begin(), init.end(), init[k]) == 1;
        if (unchanged[k] || mine) continue;
      }
      state[k] = NewBuffer(i, leaves[k], Kind::kTemporary);
    }
    const int64_t number = static_cast<int64_t>(out_.loops.size());
    ScheduledLoop loop;
    loop.name = i.name();
    loop.parent = around;
    const std::optional<int64_t> turns = KnownTripCount(i);
    loop.trip_count = turns.value_or(1);
    loop.known = turns.has_value();
    loop.first_kernel = now();
    out_.loops.push_back(loop);
    if (!loop.known) {
      Note(absl::StrCat("How often ", i.name(), " turns is decided while it runs: it counts as one turn."));
    }
    Walk(condition, {state}, number);
    const Value next = Walk(body, {state}, number);
    out_.loops[static_cast<size_t>(number)].end_kernel = now();
    if (flat) TakeStatesRoom(body, state, next);
    const int64_t last = std::max(loop.first_kernel, now() - 1);
    for (const Value* v : {static_cast<const Value*>(&state), &next}) {
      for (int b : *v) {
        if (b < 0) continue;
        Touch(b, last);
        if (v == &state) Touch(b, loop.first_kernel);
      }
    }
    return state;
  }

  // Values of the next turn take the room of this turn's, where nobody reads those any more.
  void TakeStatesRoom(const Computation& body, const Value& state, const Value& next) {
    absl::flat_hash_map<const Instruction*, int64_t> place;
    int64_t n = 0;
    for (const auto& i : body.instructions()) place[i.get()] = n++;
    std::vector<int64_t> last(state.size(), -1);
    for (const Instruction* gte : body.parameter(0)->users()) {
      if (!gte->Is(Opcode::kGetTupleElement)) continue;
      int64_t& l = last[static_cast<size_t>(gte->tuple_index())];
      for (const Instruction* user : gte->users()) {
        l = std::max(l, place.at(user));
        if (!user->Is(Opcode::kBitcast)) continue;
        for (const Instruction* again : user->users()) l = std::max(l, place.at(again));
      }
      if (std::find(body.root()->operands().begin(), body.root()->operands().end(), gte) !=
              body.root()->operands().end() &&
          gte->tuple_index() >= 0) {
        l = n;
      }
    }
    for (size_t k = 0; k < state.size(); ++k) {
      const int from = Find(next[k]), to = Find(state[k]);
      if (from < 0 || to < 0 || from == to || out_.buffers[from].info.kind != Kind::kTemporary) continue;
      if (std::any_of(state.begin(), state.end(), [&](int s) { return Find(s) == from; })) continue;
      const Instruction* made = body.root()->operand(static_cast<int64_t>(k));
      while (made->Is(Opcode::kGetTupleElement) || made->Is(Opcode::kBitcast)) made = made->operand(0);
      if (last[k] > place.at(made)) continue;
      Touch(to, out_.buffers[from].info.first_kernel);
      Touch(to, out_.buffers[from].info.last_kernel);
      out_.buffers[from].used = false;
      merged_into_[from] = to;
    }
  }

  // The most bytes that values made since then take at once, and where the largest of these comes from.
  struct Room {
    int64_t bytes = 0;
    Origin origin;
  };
  Room RoomSince(size_t buffers, int64_t kernel) const {
    const int64_t last = now() - kernel;
    auto at = [&](int64_t k) { return static_cast<size_t>(std::clamp<int64_t>(k - kernel, 0, last)); };
    std::vector<int64_t> change(static_cast<size_t>(last) + 2, 0);
    auto counts = [&](size_t b) {
      const WalkedBuffer& buffer = out_.buffers[b];
      return buffer.used && merged_into_[b] == static_cast<int>(b) && buffer.info.kind != Kind::kArgument;
    };
    for (size_t b = buffers; b < out_.buffers.size(); ++b) {
      if (!counts(b)) continue;
      const ScheduledBuffer& info = out_.buffers[b].info;
      change[at(info.first_kernel)] += info.padded_bytes;
      change[at(info.last_kernel) + 1] -= info.padded_bytes;
    }
    Room room;
    size_t fullest = 0;
    int64_t in_use = 0;
    for (size_t k = 0; k < change.size(); ++k) {
      in_use += change[k];
      if (in_use <= room.bytes) continue;
      room.bytes = in_use;
      fullest = k;
    }
    int64_t largest = 0;
    for (size_t b = buffers; b < out_.buffers.size(); ++b) {
      const ScheduledBuffer& info = out_.buffers[b].info;
      if (!counts(b) || at(info.first_kernel) > fullest || at(info.last_kernel) < fullest) continue;
      if (info.padded_bytes <= largest) continue;
      largest = info.padded_bytes;
      room.origin = info.origin;
    }
    return room;
  }

  Value Branch(const Instruction& i, int64_t loop) {
    size_t longest = 0;
    double most = -1;
    for (size_t k = 0; k < i.called().size(); ++k) {
      const double seconds = Estimate(*i.called(static_cast<int64_t>(k)));
      if (seconds <= most) continue;
      most = seconds;
      longest = k;
    }
    if (most > 0 && i.called().size() > 1) {
      Note(absl::StrCat("Of ", i.name(), " the longest branch is counted, number ", longest, "."));
    }
    const size_t buffers = out_.buffers.size();
    const int64_t first = now();
    auto walk = [&](size_t k) {
      const int64_t n = static_cast<int64_t>(k);
      return Walk(*i.called(n), {out_.values.at(i.operand(n + 1))}, loop);
    };
    // Only one branch runs, and memory has room for whichever needs most: the others are walked for that alone.
    Room most_room;
    size_t roomiest = longest;
    for (size_t k = 0; k < i.called().size(); ++k) {
      if (k == longest) continue;
      WalkedProgram before = out_;
      std::vector<int> merged = merged_into_;
      walk(k);
      Room room = RoomSince(buffers, first);
      out_ = std::move(before);
      merged_into_ = std::move(merged);
      if (room.bytes <= most_room.bytes) continue;
      most_room = std::move(room);
      roomiest = k;
    }
    Value value = walk(longest);
    if (const int64_t more = most_room.bytes - RoomSince(buffers, first).bytes; more > 0) {
      const int b = NewBuffer(i, Shape(PrimitiveType::kU8, {more}), Kind::kTemporary);
      ScheduledBuffer& info = out_.buffers[b].info;
      info.name = absl::StrCat(i.name(), ".branch_", roomiest);
      info.origin = most_room.origin;
      info.first_kernel = first;
      info.last_kernel = std::max(first, now() - 1);
      out_.buffers[b].stays_in_hbm = true;
    }
    // The other branches write these too.
    for (int b : value) {
      if (b >= 0) out_.buffers[Find(b)].stays_in_hbm = true;
    }
    return value;
  }

  // Seconds with everything in HBM.
  double Estimate(const Computation& c) {
    if (auto at = estimates_.find(&c); at != estimates_.end()) return at->second;
    double seconds = 0;
    for (const auto& i : c.instructions()) {
      if (i->Is(Opcode::kWhile)) {
        const double turns = static_cast<double>(KnownTripCount(*i).value_or(1));
        seconds += turns * (Estimate(*i->called(0)) + Estimate(*i->called(1)));
      } else if (i->Is(Opcode::kConditional) || i->Is(Opcode::kCall)) {
        double most = 0;
        for (const Computation* called : i->called()) most = std::max(most, Estimate(*called));
        seconds += most;
      } else if (IsKernel(*i)) {
        KernelDescription d = Describe(*i, machine_, torus_);
        for (const KernelPort& p : d.operands) d.work.hbm_read_bytes += p.product < 0 ? p.bytes : 0;
        for (const KernelPort& p : d.results) d.work.hbm_written_bytes += p.product < 0 ? p.bytes : 0;
        seconds += TimeKernel(machine_, d.work).seconds;
      }
    }
    return estimates_[&c] = seconds;
  }

  // ---- the end

  void AddResults(const Module& module, const Value& results) {
    const ModuleConfig& config = module.config();
    const Instruction& root = *module.entry()->root();
    absl::flat_hash_map<int, bool> taken;
    size_t n = 0;
    ForEachLeaf(root.shape(), [&](const Shape& leaf, const std::vector<int64_t>& index) {
      const int b = Find(results[n++]);
      if (!leaf.IsArray()) return;
      const bool aliased = std::any_of(
          config.input_output_aliases.begin(), config.input_output_aliases.end(), [&](const InputOutputAlias& a) {
            return std::equal(a.output_index.begin(), a.output_index.end(), index.begin(), index.end());
          });
      int result = b;
      const bool own = b >= 0 && out_.buffers[b].info.kind == Kind::kTemporary && taken.emplace(b, true).second;
      if (!own) {
        const bool same = aliased && b >= 0 && out_.buffers[b].info.kind == Kind::kArgument;
        if (same) return;
        const Instruction* from = root.Is(Opcode::kTuple) && !index.empty() ? root.operand(index[0]) : &root;
        result = NewBuffer(*from, leaf, Kind::kResult);
      }
      out_.buffers[result].info.kind = Kind::kResult;
      out_.buffers[result].takes_argument = aliased;
    });
  }

  // Final numbers, after all merging.
  void Settle(int64_t end) {
    for (WalkedKernel& k : out_.kernels) {
      for (std::vector<int>& leaves : k.operands) {
        for (int& b : leaves) b = Find(b);
      }
      for (int& b : k.results) b = Find(b);
    }
    for (auto& [i, value] : out_.values) {
      for (int& b : value) b = Find(b);
    }
    for (WalkedBuffer& b : out_.buffers) {
      if (b.info.kind != Kind::kTemporary) {
        b.info.first_kernel = 0;
        b.info.last_kernel = end;
      }
      b.info.last_kernel = std::min(b.info.last_kernel, end);
      b.info.first_kernel = std::min(b.info.first_kernel, b.info.last_kernel);
    }
  }

  const Machine& machine_;
  const absl::Span<const int64_t> torus_;
  WalkedProgram out_;
  std::vector<int> merged_into_;  // a buffer's number, or that of the one whose room it takes
  absl::flat_hash_map<const Computation*, double> estimates_;
};

}  // namespace

Origin OriginOf(const Instruction& i) {
  const OpMetadata& m = i.metadata();
  return {m.op_name, m.source_file, m.source_line};
}

WalkedProgram WalkProgram(const Module& kernels, const Machine& machine, absl::Span<const int64_t> torus) {
  return Walker(machine, torus).Run(kernels);
}

}  // namespace backplane::tpu
