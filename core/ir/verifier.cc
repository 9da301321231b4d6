#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/ir/module.h"
#include "core/ops/result_accuracy.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

absl::Status Bad(const Computation& c, const Instruction* i, absl::string_view label, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "computation ", c.name(), ": ", i != nullptr ? absl::StrCat(i->name(), ": ") : "", text, " [", label, "]"));
}

// Returns the done opcode of a start; the opcode itself for other operations.
Opcode DoneOf(Opcode start) {
  switch (start) {
    case Opcode::kAllGatherStart:
      return Opcode::kAllGatherDone;
    case Opcode::kAllReduceStart:
      return Opcode::kAllReduceDone;
    case Opcode::kCollectivePermuteStart:
      return Opcode::kCollectivePermuteDone;
    case Opcode::kCopyStart:
      return Opcode::kCopyDone;
    case Opcode::kAsyncStart:
    case Opcode::kAsyncUpdate:
      return Opcode::kAsyncDone;
    default:
      return start;
  }
}

// A start has one user, the matching done (possibly with updates in between), and the done has no other operand.
absl::Status VerifyPair(const Computation& c, const Instruction& i) {
  const Opcode done = DoneOf(i.opcode());
  if (done != i.opcode()) {
    const Instruction* user = i.users().size() == 1 ? i.users()[0] : nullptr;
    const bool ends =
        user != nullptr && (user->Is(done) || (done == Opcode::kAsyncDone && user->Is(Opcode::kAsyncUpdate)));
    if (!ends || i.IsRoot()) {
      return Bad(c, &i, "async_pair", absl::StrCat(OpName(i.opcode()), " must have one user, the ", OpName(done)));
    }
  }
  const bool ends = i.Is(Opcode::kAllGatherDone) || i.Is(Opcode::kAllReduceDone) ||
                    i.Is(Opcode::kCollectivePermuteDone) || i.Is(Opcode::kCopyDone) || i.Is(Opcode::kAsyncDone) ||
                    i.Is(Opcode::kAsyncUpdate);
  if (!ends) return absl::OkStatus();
  const Opcode wanted = i.Is(Opcode::kAsyncUpdate) ? Opcode::kAsyncDone : i.opcode();
  const Instruction& start = *i.operand(0);
  if (DoneOf(start.opcode()) != wanted || start.opcode() == wanted) {
    return Bad(c, &i, "async_pair", absl::StrCat("operand ", start.name(), " is not what it ends"));
  }
  return absl::OkStatus();
}

bool IsTransferDone(const Instruction& i) { return i.Is(Opcode::kSendDone) || i.Is(Opcode::kRecvDone); }

// The context of a send or recv is used only by its done. It may reach the done through a loop or a tuple. A done that
// follows directly must match in kind, channel and peer.
absl::Status VerifyTransfer(const Computation& c, const Instruction& i) {
  if (i.Is(Opcode::kSend) || i.Is(Opcode::kRecv)) {
    bool done = false;
    for (const Instruction* user : i.users()) done = done || IsTransferDone(*user);
    if (i.users().empty() ? !i.IsRoot() : done && (i.users().size() > 1 || i.IsRoot())) {
      return Bad(c, &i, "transfer_pair",
                 absl::StrCat(OpName(i.opcode()), " must have one user, the ",
                              OpName(i.Is(Opcode::kSend) ? Opcode::kSendDone : Opcode::kRecvDone)));
    }
  }
  if (!IsTransferDone(i)) return absl::OkStatus();
  const Instruction& start = *i.operand(0);
  if (!start.Is(Opcode::kSend) && !start.Is(Opcode::kRecv)) return absl::OkStatus();
  const int64_t channel = i.attrs().GetInt(AttrId::kChannelId), other = start.attrs().GetInt(AttrId::kChannelId);
  if (start.Is(Opcode::kSend) != i.Is(Opcode::kSendDone)) {
    return Bad(c, &i, "transfer_pair", absl::StrCat("operand ", start.name(), " is not what it ends"));
  }
  if (i.attrs().Has(AttrId::kChannelId) && channel != other) {
    return Bad(c, &i, "transfer_pair",
               absl::StrCat("ends channel ", channel, ", ", start.name(), " is of channel ", other));
  }
  if (i.attrs().GetBool(AttrId::kIsHostTransfer) != start.attrs().GetBool(AttrId::kIsHostTransfer)) {
    return Bad(c, &i, "transfer_pair",
               absl::StrCat("it and ", start.name(), " differ in whether the host is the other end"));
  }
  return absl::OkStatus();
}

using Members = absl::flat_hash_set<const Instruction*>;

// Checks that operands and users are consistent, use by use. Accesses an instruction only after finding it among the
// members, because a pass may have left a dangling pointer.
absl::Status VerifyUses(const Computation& c, const Members& members) {
  absl::flat_hash_set<std::pair<const Instruction*, const Instruction*>> uses;  // operand, user
  for (const auto& i : c.instructions()) {
    for (const Instruction* o : i->operands()) {
      if (!members.contains(o)) return Bad(c, i.get(), "operand", "an operand is not of this computation");
      uses.emplace(o, i.get());
    }
    for (const Instruction* p : i->control_predecessors()) {
      if (!members.contains(p)) return Bad(c, i.get(), "control", "a control predecessor is not of this computation");
    }
  }
  size_t listed = 0;
  for (const auto& i : c.instructions()) {
    Members seen;
    for (const Instruction* u : i->users()) {
      if (!members.contains(u)) return Bad(c, i.get(), "users", "a user is not of this computation");
      if (!uses.contains(std::pair<const Instruction*, const Instruction*>(i.get(), u)))
        return Bad(c, i.get(), "users", absl::StrCat("user ", u->name(), " does not use it"));
      if (!seen.insert(u).second) return Bad(c, i.get(), "users", absl::StrCat("user ", u->name(), " stands twice"));
    }
    listed += seen.size();
  }
  if (listed == uses.size()) return absl::OkStatus();
  for (const auto& i : c.instructions()) {
    for (const Instruction* o : i->operands()) {
      if (std::find(o->users().begin(), o->users().end(), i.get()) == o->users().end())
        return Bad(c, i.get(), "users", absl::StrCat("is not among the users of ", o->name()));
    }
  }
  return absl::OkStatus();
}

absl::Status VerifyInstruction(const Computation& c, const Instruction& i, const Members& before) {
  if (i.parent() != &c) return Bad(c, &i, "parent", "belongs to another computation");
  for (const Instruction* o : i.operands()) {
    if (!before.contains(o)) return Bad(c, &i, "order", absl::StrCat("operand ", o->name(), " stands after it"));
  }
  for (const Instruction* p : i.control_predecessors()) {
    if (!before.contains(p))
      return Bad(c, &i, "order", absl::StrCat("control predecessor ", p->name(), " stands after it"));
  }
  for (const Computation* called : i.called()) {
    if (called->root() == nullptr)
      return Bad(c, &i, "called", absl::StrCat("calls ", called->name(), ", which has no root"));
  }
  Instruction::ContextStorage storage;
  absl::StatusOr<Shape> shape = InferShape(i.Context(storage));
  if (!shape.ok()) {
    return absl::Status(shape.status().code(), absl::StrCat("computation ", c.name(), ": ", shape.status().message()));
  }
  RETURN_IF_ERROR(VerifyPair(c, i));
  RETURN_IF_ERROR(VerifyTransfer(c, i));
  if (i.result_accuracy()) {
    absl::Status s = CheckResultAccuracy(i.opcode(), i.name(), *i.result_accuracy());
    if (!s.ok()) return absl::Status(s.code(), absl::StrCat("computation ", c.name(), ": ", s.message()));
  }
  return absl::OkStatus();
}

// Bounds the nesting of calls of any kind, so that recursion over them cannot overflow the stack.
constexpr int kMaxCallDepth = 512;

// Checks that calls are not recursive and not nested too deeply. Recursive traversals of a program rely on both.
absl::Status VerifyCalls(const Module& module) {
  absl::flat_hash_map<const Computation*, int> height;  // levels of calls below; kOpen: being visited
  constexpr int kOpen = -1;
  struct Frame {
    const Computation* computation;
    std::vector<const Computation*> callees;
    size_t next = 0;
    int height = 0;
  };
  std::vector<Frame> stack;
  auto push = [&](const Computation* c) {
    height[c] = kOpen;
    Frame f{c, {}};
    for (const auto& i : c->instructions()) {
      for (const Computation* callee : i->called()) f.callees.push_back(callee);
    }
    stack.push_back(std::move(f));
  };
  for (const auto& c : module.computations()) {
    if (height.contains(c.get())) continue;
    push(c.get());
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next == top.callees.size()) {
        const int now = top.height;
        height[top.computation] = now;
        if (now > kMaxCallDepth) {
          return absl::ResourceExhaustedError(absl::StrCat("computation ", top.computation->name(),
                                                           ": calls are nested deeper than ", kMaxCallDepth,
                                                           " levels [call_depth]"));
        }
        stack.pop_back();
        if (!stack.empty()) stack.back().height = std::max(stack.back().height, now + 1);
        continue;
      }
      const Computation* callee = top.callees[top.next++];
      auto known = height.find(callee);
      if (known == height.end()) {
        push(callee);
      } else if (known->second == kOpen) {
        return Bad(*callee, nullptr, "recursion", "calls itself, directly or through others");
      } else {
        top.height = std::max(top.height, known->second + 1);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyModule(const Module& module) {
  absl::flat_hash_set<const Computation*> computations;
  absl::flat_hash_set<absl::string_view> computation_names, names;
  for (const auto& c : module.computations()) {
    computations.insert(c.get());
    if (!computation_names.insert(c->name()).second) return Bad(*c, nullptr, "name", "the name stands twice");
  }
  if (module.entry() == nullptr || !computations.contains(module.entry())) {
    return absl::InvalidArgumentError(absl::StrCat("module ", module.name(), ": has no entry computation [entry]"));
  }
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      for (const Computation* called : i->called()) {
        if (!computations.contains(called))
          return Bad(*c, i.get(), "called", "calls a computation that is not of this module");
      }
    }
  }
  RETURN_IF_ERROR(VerifyCalls(module));
  for (const auto& c : module.computations()) {
    Members members, before;
    for (const auto& i : c->instructions()) members.insert(i.get());
    RETURN_IF_ERROR(VerifyUses(*c, members));
    int64_t parameters = 0;
    for (const auto& i : c->instructions()) {
      if (i->name().empty() || !names.insert(i->name()).second) {
        return Bad(*c, i.get(), "name", "the name is empty or stands twice");
      }
      RETURN_IF_ERROR(VerifyInstruction(*c, *i, before));
      before.insert(i.get());
      if (!i->Is(Opcode::kParameter)) continue;
      ++parameters;
      const int64_t n = i->parameter_number();
      if (n < 0 || n >= static_cast<int64_t>(c->parameters().size()) || c->parameter(n) != i.get()) {
        return Bad(*c, i.get(), "parameter_i1", absl::StrCat("parameter number ", n, " is not its place"));
      }
    }
    if (parameters != static_cast<int64_t>(c->parameters().size())) {
      return Bad(*c, nullptr, "parameter_i1",
                 absl::StrCat("has ", parameters, " parameters, numbered up to ", c->parameters().size()));
    }
    if (c->root() == nullptr || !before.contains(c->root())) return Bad(*c, nullptr, "root", "has no root");
  }
  const ModuleConfig& config = module.config();
  const ProgramShape entry = module.entry()->program_shape();
  auto sub = [](const Shape* s, const Ints& index) -> const Shape* {
    for (int64_t i : index) {
      if (!s->IsTuple() || i < 0 || i >= s->tuple_size()) return nullptr;
      s = &s->tuple_shapes(i);
    }
    return s;
  };
  for (const InputOutputAlias& a : config.input_output_aliases) {
    const bool known = a.parameter >= 0 && a.parameter < static_cast<int64_t>(entry.parameters.size());
    const Shape* in = known ? sub(&entry.parameters[a.parameter], a.parameter_index) : nullptr;
    const Shape* out = sub(&entry.result, a.output_index);
    if (in == nullptr || out == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("module ", module.name(), ": an alias names no parameter ",
                                                     a.parameter, " or output [input_output_alias]"));
    }
  }
  for (const BufferDonor& d : config.buffer_donors) {
    const bool known = d.parameter >= 0 && d.parameter < static_cast<int64_t>(entry.parameters.size());
    if (!known || sub(&entry.parameters[d.parameter], d.parameter_index) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("module ", module.name(), ": a donor names no parameter ", d.parameter, " [buffer_donor]"));
    }
  }
  return absl::OkStatus();
}

}  // namespace backplane
