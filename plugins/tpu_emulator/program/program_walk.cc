#include "plugins/tpu_emulator/program/program_walk.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/analysis/trip_count.h"
#include "plugins/tpu_emulator/program/layouts.h"

namespace backplane::tpu {
namespace {

using BufferList = std::vector<int>;  // the buffer of each leaf

int64_t LeafCount(const Shape& shape) {
  int64_t count = 0;
  ForEachLeaf(shape, [&](const Shape&, const std::vector<int64_t>&) { ++count; });
  return count;
}

// Returns the number of the first leaf of tuple element k.
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
    std::vector<BufferList> arguments;
    for (const Instruction* p : entry.parameters()) {
      BufferList value;
      ForEachLeaf(p->shape(), [&](const Shape& leaf, const std::vector<int64_t>&) {
        value.push_back(leaf.IsArray() ? NewBuffer(*p, leaf, ScheduledBuffer::Kind::kArgument) : -1);
      });
      arguments.push_back(std::move(value));
    }
    BufferList results = Walk(entry, arguments, -1);
    const int64_t end = std::max<int64_t>(0, static_cast<int64_t>(out_.kernels.size()) - 1);
    AddResults(module, results);
    FinalizeIntervals(end);
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
    b.info.origin = GetOrigin(from);
    b.info.padded_bytes = PaddedBytes(shape);
    b.info.unpadded_bytes = ComputeUnpaddedBytes(shape);
    b.info.first_kernel = b.info.last_kernel = now();
    b.used = true;
    out_.buffers.push_back(std::move(b));
    merged_into_.push_back(static_cast<int>(merged_into_.size()));
    return static_cast<int>(out_.buffers.size()) - 1;
  }

  // What a walk that will be undone has changed in the program as it was before.
  struct Trail {
    struct Buffer {
      int number, merged_into;
      int64_t first_kernel, last_kernel;
      bool pinned_to_hbm, used;
    };
    size_t kernels, buffers, loops, notes;  // their numbers at the start
    std::vector<Buffer> changed;
    std::vector<std::pair<const Instruction*, std::optional<BufferList>>> values;  // nullopt: it had none
  };

  // Call before a change of the buffer.
  void Remember(int b) {
    if (trail_ == nullptr || static_cast<size_t>(b) >= trail_->buffers) return;
    const WalkedBuffer& from = out_.buffers[b];
    trail_->changed.push_back(
        {b, merged_into_[b], from.info.first_kernel, from.info.last_kernel, from.pinned_to_hbm, from.used});
  }
  void Undo(Trail& trail) {
    for (auto from = trail.changed.rbegin(); from != trail.changed.rend(); ++from) {
      WalkedBuffer& b = out_.buffers[from->number];
      b.info.first_kernel = from->first_kernel;
      b.info.last_kernel = from->last_kernel;
      b.pinned_to_hbm = from->pinned_to_hbm;
      b.used = from->used;
      merged_into_[from->number] = from->merged_into;
    }
    for (auto value = trail.values.rbegin(); value != trail.values.rend(); ++value) {
      if (value->second.has_value()) {
        out_.values[value->first] = *std::move(value->second);
      } else {
        out_.values.erase(value->first);
      }
    }
    for (size_t n = trail.notes; n < out_.notes.size(); ++n) notes_.erase(out_.notes[n]);
    out_.kernels.resize(trail.kernels);
    out_.buffers.resize(trail.buffers);
    merged_into_.resize(trail.buffers);
    out_.loops.resize(trail.loops);
    out_.notes.resize(trail.notes);
  }

  int FindMerged(int b) {
    if (b < 0) return b;
    while (merged_into_[b] != b) {
      const int next = merged_into_[merged_into_[b]];
      if (next != merged_into_[b]) {
        Remember(b);
        merged_into_[b] = next;
      }
      b = next;
    }
    return b;
  }

  ScheduledBuffer& GetInfo(int b) { return out_.buffers[FindMerged(b)].info; }

  void ExtendInterval(int b, int64_t kernel) {
    b = FindMerged(b);
    if (b < 0) return;
    ScheduledBuffer& info = out_.buffers[b].info;
    if (info.first_kernel <= kernel && kernel <= info.last_kernel) return;
    Remember(b);
    info.first_kernel = std::min(info.first_kernel, kernel);
    info.last_kernel = std::max(info.last_kernel, kernel);
  }

  void AddNote(const std::string& note) {
    if (notes_.insert(note).second) out_.notes.push_back(note);
  }

  BufferList Walk(const Computation& c, absl::Span<const BufferList> parameters, int64_t loop) {
    for (const auto& owned : c.instructions()) {
      const Instruction& i = *owned;
      SetValue(i, GetBuffers(i, parameters, loop));
    }
    return out_.values.at(c.root());
  }

  void SetValue(const Instruction& i, BufferList buffers) {
    const auto [at, is_new] = out_.values.try_emplace(&i);
    if (trail_ != nullptr) {
      trail_->values.emplace_back(&i, is_new ? std::nullopt : std::optional<BufferList>(std::move(at->second)));
    }
    at->second = std::move(buffers);
  }

  BufferList GetBuffers(const Instruction& i, absl::Span<const BufferList> parameters, int64_t loop) {
    if (i.Is(Opcode::kBitcast) || i.info().Has(OpTrait::kForwardsOperand)) return out_.values.at(i.operand(0));
    switch (i.opcode()) {
      case Opcode::kParameter:
        return parameters[static_cast<size_t>(i.parameter_number())];
      case Opcode::kConstant:
        if (!i.shape().IsArray() || i.shape().num_elements() <= 1) return NoBuffers(i);
        return {NewBuffer(i, i.shape(), Kind::kConstant)};
      case Opcode::kTuple: {
        BufferList value;
        for (const Instruction* o : i.operands()) {
          const BufferList& element = out_.values.at(o);
          value.insert(value.end(), element.begin(), element.end());
        }
        return value;
      }
      case Opcode::kGetTupleElement: {
        const BufferList& tuple = out_.values.at(i.operand(0));
        const int64_t first = FirstLeaf(i.operand(0)->shape(), i.tuple_index());
        return BufferList(tuple.begin() + first, tuple.begin() + first + LeafCount(i.shape()));
      }
      case Opcode::kWhile:
        return WalkLoop(i, loop);
      case Opcode::kConditional:
        return WalkConditional(i, loop);
      case Opcode::kCall: {
        std::vector<BufferList> arguments;
        for (const Instruction* o : i.operands()) arguments.push_back(out_.values.at(o));
        return Walk(*i.called(0), arguments, loop);
      }
      default:
        return IsKernel(i) ? AddKernel(i, loop) : NoBuffers(i);
    }
  }

  static BufferList NoBuffers(const Instruction& i) {
    return BufferList(static_cast<size_t>(LeafCount(i.shape())), -1);
  }

  BufferList AddKernel(const Instruction& i, int64_t loop) {
    WalkedKernel k;
    k.instruction = &i;
    k.work = DescribeKernel(i, machine_, torus_);
    k.loop = loop;
    const int64_t number = now();
    for (const std::string& note : k.work.notes) AddNote(note);
    for (const Instruction* o : i.operands()) {
      k.operands.push_back(out_.values.at(o));
      for (int b : k.operands.back()) ExtendInterval(b, number);
    }
    BufferList value;
    ForEachLeaf(i.shape(), [&](const Shape& leaf, const std::vector<int64_t>&) {
      if (!leaf.IsArray()) return value.push_back(-1);
      const size_t n = k.results.size();
      int b = k.work.results[n].in_place ? FindUpdatedBuffer(i, k, n) : -1;
      if (b < 0) {
        b = NewBuffer(i, leaf, Kind::kTemporary);
        if (k.work.results[n].in_place) CountFullCopy(k, n, PaddedBytes(leaf));
      }
      k.results.push_back(b);
      value.push_back(b);
    });
    out_.kernels.push_back(std::move(k));
    return value;
  }

  // Returns the buffer of the n-th operand that is updated in place, or -1 if other instructions still need it.
  int FindUpdatedBuffer(const Instruction& i, const WalkedKernel& k, size_t n) {
    for (size_t o = 0; o < k.operands.size(); ++o) {
      if (!k.work.operands[o].in_place || k.operands[o].size() != 1) continue;
      if (n-- > 0) continue;
      const int b = k.operands[o][0];
      const Instruction* from = i.operand(static_cast<int64_t>(o));
      const bool last = from->users().size() == 1 && !from->IsRoot();
      return b >= 0 && last && GetInfo(b).kind == Kind::kTemporary ? b : -1;
    }
    return -1;
  }

  // The operand cannot be updated in place, so the kernel copies all of it.
  void CountFullCopy(WalkedKernel& k, size_t n, int64_t bytes) {
    k.work.results[n].bytes = bytes;
    for (size_t o = 0; o < k.operands.size(); ++o) {
      if (!k.work.operands[o].in_place) continue;
      if (n-- == 0) k.work.operands[o].bytes = bytes;
    }
  }

  // ---- Control flow.

  BufferList WalkLoop(const Instruction& i, int64_t parent) {
    const Computation &condition = *i.called(0), &body = *i.called(1);
    const BufferList& init = out_.values.at(i.operand(0));
    std::vector<Shape> leaves;
    ForEachLeaf(i.shape(), [&](const Shape& leaf, const std::vector<int64_t>&) { leaves.push_back(leaf); });
    const bool flat = i.shape().IsTuple() && static_cast<int64_t>(leaves.size()) == i.shape().tuple_size() &&
                      body.root()->Is(Opcode::kTuple) && i.operand(0)->Is(Opcode::kTuple);
    BufferList state = init;
    std::vector<bool> unchanged(leaves.size(), false);
    for (size_t k = 0; k < leaves.size(); ++k) {
      if (init[k] < 0) continue;
      const int64_t index = static_cast<int64_t>(k);
      if (flat) {
        const Instruction* next = body.root()->operand(index);
        unchanged[k] =
            next->Is(Opcode::kGetTupleElement) && next->tuple_index() == index && next->operand(0) == body.parameter(0);
        const Instruction* first = i.operand(0)->operand(index);
        const bool only_user = first->users().size() == 1 && i.operand(0)->users().size() == 1 &&
                               GetInfo(init[k]).kind == Kind::kTemporary &&
                               std::count(init.begin(), init.end(), init[k]) == 1;
        if (unchanged[k] || only_user) continue;
      }
      state[k] = NewBuffer(i, leaves[k], Kind::kTemporary);
    }
    const int64_t number = static_cast<int64_t>(out_.loops.size());
    ScheduledLoop loop;
    loop.name = i.name();
    loop.parent = parent;
    const std::optional<int64_t> trip_count = ComputeTripCount(i);
    loop.trip_count = trip_count.value_or(1);
    loop.known = trip_count.has_value();
    loop.first_kernel = now();
    out_.loops.push_back(loop);
    if (!loop.known) {
      AddNote(absl::StrCat("The trip count of ", i.name(), " is unknown at compile time; one iteration is counted."));
    }
    Walk(condition, {state}, number);
    const BufferList next = Walk(body, {state}, number);
    out_.loops[static_cast<size_t>(number)].end_kernel = now();
    if (flat) ReuseStateBuffers(body, state, next);
    const int64_t last = std::max(loop.first_kernel, now() - 1);
    for (const BufferList* v : {static_cast<const BufferList*>(&state), &next}) {
      for (int b : *v) {
        if (b < 0) continue;
        ExtendInterval(b, last);
        if (v == &state) ExtendInterval(b, loop.first_kernel);
      }
    }
    return state;
  }

  // A value of the next iteration reuses the buffer of the current state if the body does not read that state
  // afterwards.
  void ReuseStateBuffers(const Computation& body, const BufferList& state, const BufferList& next) {
    absl::flat_hash_map<const Instruction*, int64_t> position;
    int64_t n = 0;
    for (const auto& i : body.instructions()) position[i.get()] = n++;
    std::vector<int64_t> last(state.size(), -1);
    for (const Instruction* gte : body.parameter(0)->users()) {
      if (!gte->Is(Opcode::kGetTupleElement)) continue;
      int64_t& l = last[static_cast<size_t>(gte->tuple_index())];
      for (const Instruction* user : gte->users()) {
        l = std::max(l, position.at(user));
        if (!user->Is(Opcode::kBitcast)) continue;
        for (const Instruction* again : user->users()) l = std::max(l, position.at(again));
      }
      if (std::find(body.root()->operands().begin(), body.root()->operands().end(), gte) !=
              body.root()->operands().end() &&
          gte->tuple_index() >= 0) {
        l = n;
      }
    }
    for (size_t k = 0; k < state.size(); ++k) {
      const int from = FindMerged(next[k]), to = FindMerged(state[k]);
      if (from < 0 || to < 0 || from == to || out_.buffers[from].info.kind != Kind::kTemporary) continue;
      if (std::any_of(state.begin(), state.end(), [&](int s) { return FindMerged(s) == from; })) continue;
      const Instruction* made = body.root()->operand(static_cast<int64_t>(k));
      while (made->Is(Opcode::kGetTupleElement) || made->Is(Opcode::kBitcast)) made = made->operand(0);
      if (last[k] > position.at(made)) continue;
      ExtendInterval(to, out_.buffers[from].info.first_kernel);
      ExtendInterval(to, out_.buffers[from].info.last_kernel);
      Remember(from);
      out_.buffers[from].used = false;
      merged_into_[from] = to;
    }
  }

  // The peak bytes of the buffers created since `buffers`, from kernel `kernel` on, and the origin of the largest one.
  struct Peak {
    int64_t bytes = 0;
    Origin origin;
  };
  Peak ComputePeakSince(size_t buffers, int64_t kernel) const {
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
    Peak peak;
    size_t fullest = 0;
    int64_t in_use = 0;
    for (size_t k = 0; k < change.size(); ++k) {
      in_use += change[k];
      if (in_use <= peak.bytes) continue;
      peak.bytes = in_use;
      fullest = k;
    }
    int64_t largest = 0;
    for (size_t b = buffers; b < out_.buffers.size(); ++b) {
      const ScheduledBuffer& info = out_.buffers[b].info;
      if (!counts(b) || at(info.first_kernel) > fullest || at(info.last_kernel) < fullest) continue;
      if (info.padded_bytes <= largest) continue;
      largest = info.padded_bytes;
      peak.origin = info.origin;
    }
    return peak;
  }

  BufferList WalkConditional(const Instruction& i, int64_t loop) {
    size_t slowest = 0;
    double most = -1;
    for (size_t k = 0; k < i.called().size(); ++k) {
      const double seconds = EstimateSeconds(*i.called(static_cast<int64_t>(k)));
      if (seconds <= most) continue;
      most = seconds;
      slowest = k;
    }
    if (most > 0 && i.called().size() > 1) {
      AddNote(absl::StrCat("Only the slowest branch of ", i.name(), " is counted, number ", slowest, "."));
    }
    const size_t buffers = out_.buffers.size();
    const int64_t first = now();
    auto walk = [&](size_t k) {
      const int64_t n = static_cast<int64_t>(k);
      return Walk(*i.called(n), {out_.values.at(i.operand(n + 1))}, loop);
    };
    // Only one branch runs, but memory must suffice for any of them. The other branches are walked to find their peak.
    Peak largest_peak;
    size_t largest_branch = slowest;
    for (size_t k = 0; k < i.called().size(); ++k) {
      if (k == slowest) continue;
      Trail trail{out_.kernels.size(), buffers, out_.loops.size(), out_.notes.size(), {}, {}};
      Trail* const outer = std::exchange(trail_, &trail);
      walk(k);
      trail_ = outer;
      Peak peak = ComputePeakSince(buffers, first);
      Undo(trail);
      if (peak.bytes <= largest_peak.bytes) continue;
      largest_peak = std::move(peak);
      largest_branch = k;
    }
    BufferList value = walk(slowest);
    if (const int64_t more = largest_peak.bytes - ComputePeakSince(buffers, first).bytes; more > 0) {
      const int b = NewBuffer(i, Shape(PrimitiveType::kU8, {more}), Kind::kTemporary);
      ScheduledBuffer& info = out_.buffers[b].info;
      info.name = absl::StrCat(i.name(), ".branch_", largest_branch);
      info.origin = largest_peak.origin;
      info.first_kernel = first;
      info.last_kernel = std::max(first, now() - 1);
      out_.buffers[b].pinned_to_hbm = true;
    }
    // The other branches write these buffers, too.
    for (int b : value) {
      b = FindMerged(b);
      if (b < 0) continue;
      Remember(b);
      out_.buffers[b].pinned_to_hbm = true;
    }
    return value;
  }

  // Returns the time of a computation if all values are in HBM.
  double EstimateSeconds(const Computation& c) {
    if (auto at = estimates_.find(&c); at != estimates_.end()) return at->second;
    double seconds = 0;
    for (const auto& i : c.instructions()) {
      if (i->Is(Opcode::kWhile)) {
        const double trip_count = static_cast<double>(ComputeTripCount(*i).value_or(1));
        seconds += trip_count * (EstimateSeconds(*i->called(0)) + EstimateSeconds(*i->called(1)));
      } else if (i->Is(Opcode::kConditional) || i->Is(Opcode::kCall)) {
        double most = 0;
        for (const Computation* called : i->called()) most = std::max(most, EstimateSeconds(*called));
        seconds += most;
      } else if (IsKernel(*i)) {
        KernelDescription d = DescribeKernel(*i, machine_, torus_);
        for (const KernelPort& p : d.operands) d.work.hbm_read_bytes += p.product < 0 ? p.bytes : 0;
        for (const KernelPort& p : d.results) d.work.hbm_written_bytes += p.product < 0 ? p.bytes : 0;
        seconds += TimeKernel(machine_, d.work).seconds;
      }
    }
    return estimates_[&c] = seconds;
  }

  // ---- Results and final numbers.

  void AddResults(const Module& module, const BufferList& results) {
    const ModuleConfig& config = module.config();
    const Instruction& root = *module.entry()->root();
    absl::flat_hash_map<int, bool> taken;
    size_t n = 0;
    ForEachLeaf(root.shape(), [&](const Shape& leaf, const std::vector<int64_t>& index) {
      const int b = FindMerged(results[n++]);
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
      out_.buffers[result].aliases_argument = aliased;
    });
  }

  // Resolves merged buffers and sets the final lifetimes.
  void FinalizeIntervals(int64_t end) {
    for (WalkedKernel& k : out_.kernels) {
      for (std::vector<int>& leaves : k.operands) {
        for (int& b : leaves) b = FindMerged(b);
      }
      for (int& b : k.results) b = FindMerged(b);
    }
    for (auto& [i, value] : out_.values) {
      for (int& b : value) b = FindMerged(b);
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
  std::vector<int> merged_into_;  // the buffer itself, or the buffer whose memory it reuses
  Trail* trail_ = nullptr;        // of the walk that will be undone, if this is one
  absl::flat_hash_set<std::string> notes_;
  absl::flat_hash_map<const Computation*, double> estimates_;
};

}  // namespace

Origin GetOrigin(const Instruction& i) {
  const OpMetadata& m = i.metadata();
  return {m.op_name, m.source_file, m.source_line};
}

WalkedProgram WalkProgram(const Module& kernels, const Machine& machine, absl::Span<const int64_t> torus) {
  return Walker(machine, torus).Run(kernels);
}

}  // namespace backplane::tpu
