#include "core/analysis/transfer_order.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr size_t kMaxSimulatedSteps = 100000;  // over all devices; larger programs are not checked

bool IsBetweenDevices(const Instruction& start) { return !start.attrs().GetBool(AttrId::kIsHostTransfer); }
bool IsSend(const Instruction& i) { return i.Is(Opcode::kSend) && IsBetweenDevices(i); }
// Backends execute a recv-done only if its operand is the recv itself.
bool IsReceive(const Instruction& i) {
  return i.Is(Opcode::kRecvDone) && i.operand(0)->Is(Opcode::kRecv) && IsBetweenDevices(*i.operand(0));
}
const Instruction& GetStart(const Instruction& i) { return i.Is(Opcode::kRecvDone) ? *i.operand(0) : i; }
int64_t GetChannel(const Instruction& i) { return GetStart(i).attrs().GetInt(AttrId::kChannelId); }

// Lists the transfers that an instruction or a computation executes, including those of called computations, in order.
// Caches the lists of computations.
class TransferLists {
 public:
  const std::vector<const Instruction*>& Get(const Computation* c) {
    auto [at, is_new] = lists_.try_emplace(c);
    if (!is_new) return *at->second;
    auto list = std::make_unique<std::vector<const Instruction*>>();
    for (const auto& i : c->instructions()) Append(*i, list.get());
    return *(lists_[c] = std::move(list));
  }
  std::vector<const Instruction*> Get(const Instruction& i) {
    std::vector<const Instruction*> list;
    Append(i, &list);
    return list;
  }

 private:
  void Append(const Instruction& i, std::vector<const Instruction*>* list) {
    if (IsSend(i) || IsReceive(i)) list->push_back(&i);
    for (const Computation* called : i.called()) {
      const std::vector<const Instruction*>& inner = Get(called);
      list->insert(list->end(), inner.begin(), inner.end());
    }
  }
  absl::flat_hash_map<const Computation*, std::unique_ptr<std::vector<const Instruction*>>> lists_;
};

// An instruction of the computation that is being ordered.
struct Step {
  Instruction* instruction;
  std::vector<int64_t> sends, receives;  // channels
  size_t unplaced_inputs = 0;            // operands and control predecessors
};

// Reorders the transfers of one computation. Returns whether the order changed.
absl::StatusOr<bool> OrderComputation(Computation* c, TransferLists& transfers) {
  std::vector<Step> steps;
  absl::flat_hash_map<const Instruction*, size_t> index_of;
  absl::flat_hash_set<int64_t> sent, sent_anywhere;  // channels with a send so far, with a send at all
  bool receive_before_send = false;
  for (Instruction* i : c->Snapshot()) {
    Step step{i, {}, {}};
    for (const Instruction* t : transfers.Get(*i)) {
      (IsSend(*t) ? step.sends : step.receives).push_back(GetChannel(*t));
      if (IsSend(*t)) sent_anywhere.insert(GetChannel(*t));
    }
    index_of[i] = steps.size();
    steps.push_back(std::move(step));
  }
  for (const Step& s : steps) {
    sent.insert(s.sends.begin(), s.sends.end());
    for (int64_t channel : s.receives) {
      if (sent_anywhere.contains(channel) && !sent.contains(channel)) receive_before_send = true;
    }
  }
  if (!receive_before_send) return false;
  // List scheduling. Among the ready steps the preferred one has the lowest rank: 0 receives nothing, 1 receives only
  // what has been sent, 2 would block. Ties keep the original order.
  std::vector<std::vector<size_t>> next(steps.size());
  for (size_t k = 0; k < steps.size(); ++k) {
    absl::flat_hash_set<const Instruction*> inputs(steps[k].instruction->operands().begin(),
                                                   steps[k].instruction->operands().end());
    for (const Instruction* p : steps[k].instruction->control_predecessors()) inputs.insert(p);
    for (const Instruction* input : inputs) next[index_of[input]].push_back(k);
    steps[k].unplaced_inputs = inputs.size();
  }
  std::vector<size_t> ready;
  for (size_t k = 0; k < steps.size(); ++k) {
    if (steps[k].unplaced_inputs == 0) ready.push_back(k);
  }
  sent.clear();
  std::vector<size_t> placed_senders;
  bool changed = false;
  while (!ready.empty()) {
    auto rank = [&](size_t k) {
      int rank = 0;
      for (int64_t channel : steps[k].receives) {
        const bool is_sent =
            sent.contains(channel) || std::count(steps[k].sends.begin(), steps[k].sends.end(), channel);
        rank = std::max(rank, is_sent ? 1 : 2);
      }
      return std::pair(rank, k);
    };
    const size_t k =
        *std::min_element(ready.begin(), ready.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
    ready.erase(std::find(ready.begin(), ready.end(), k));
    if (!steps[k].receives.empty()) {
      for (size_t s : placed_senders) {
        if (s < k) continue;  // already precedes it in the original order
        Instruction* receiver = steps[k].instruction;
        const auto& predecessors = receiver->control_predecessors();
        if (std::find(predecessors.begin(), predecessors.end(), steps[s].instruction) != predecessors.end()) continue;
        receiver->AddControlPredecessor(steps[s].instruction);
        changed = true;
      }
    }
    if (!steps[k].sends.empty()) placed_senders.push_back(k);
    sent.insert(steps[k].sends.begin(), steps[k].sends.end());
    for (size_t n : next[k]) {
      if (--steps[n].unplaced_inputs == 0) ready.push_back(n);
    }
  }
  if (changed) c->SortTopologically();
  return changed;
}

// Simulates the transfers on all devices. Returns InvalidArgument if some devices block for ever, naming the receives
// that they block at.
absl::Status CheckForDeadlock(const std::vector<const Instruction*>& list) {
  struct Channel {
    std::vector<size_t> sends, receives;
    std::map<int64_t, int64_t> source;  // by target
  };
  std::map<int64_t, Channel> channels;
  for (size_t k = 0; k < list.size(); ++k) {
    Channel& channel = channels[GetChannel(*list[k])];
    (IsSend(*list[k]) ? channel.sends : channel.receives).push_back(k);
    if (IsSend(*list[k])) continue;
    ASSIGN_OR_RETURN(Pairs pairs, GetTransferPairs(GetStart(*list[k])));
    for (const auto& [source, target] : pairs) channel.source[target] = source;
  }
  absl::flat_hash_set<int64_t> checked_channels;
  std::map<int64_t, size_t> position;  // in `list`, by device
  for (const auto& [id, channel] : channels) {
    if (channel.sends.size() != 1 || channel.receives.size() != 1) continue;
    checked_channels.insert(id);
    for (const auto& [target, source] : channel.source) position[target] = position[source] = 0;
  }
  if (position.size() * list.size() > kMaxSimulatedSteps) return absl::OkStatus();
  for (bool progress = true; progress;) {
    progress = false;
    for (auto& [device, k] : position) {
      for (; k < list.size(); ++k, progress = true) {
        if (IsSend(*list[k]) || !checked_channels.contains(GetChannel(*list[k]))) continue;
        const Channel& channel = channels[GetChannel(*list[k])];
        auto source = channel.source.find(device);
        if (source != channel.source.end() && position[source->second] <= channel.sends[0]) break;  // not sent yet
      }
    }
  }
  std::vector<std::string> blocked;
  for (const auto& [device, k] : position) {
    if (k == list.size()) continue;
    const Channel& channel = channels[GetChannel(*list[k])];
    blocked.push_back(absl::StrCat("device ", device, " at ", list[k]->name(), " (channel ", GetChannel(*list[k]),
                                   ") waits for device ", channel.source.at(device), " to reach ",
                                   list[channel.sends[0]]->name()));
    if (blocked.size() == 8) break;
  }
  if (blocked.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("channels: sends and receives deadlock: ", absl::StrJoin(blocked, "; "), " [channel_cycle]"));
}

}  // namespace

absl::StatusOr<Pairs> GetTransferPairs(const Instruction& start) {
  if (start.attrs().Has(AttrId::kSourceTargetPairs)) return start.attrs().Get<Pairs>(AttrId::kSourceTargetPairs);
  Pairs pairs;
  auto at = start.frontend_attributes().find("_xla_send_recv_source_target_pairs");
  if (at == start.frontend_attributes().end()) return pairs;
  const std::string list =
      absl::StrReplaceAll(absl::StrReplaceAll(at->second, {{" ", ""}}), {{"},{", ";"}, {"{", ""}, {"}", ""}});
  for (absl::string_view text : absl::StrSplit(list, ';', absl::SkipEmpty())) {
    const std::vector<absl::string_view> ids = absl::StrSplit(text, ',');
    std::pair<int64_t, int64_t> pair;
    if (ids.size() != 2 || !absl::SimpleAtoi(ids[0], &pair.first) || !absl::SimpleAtoi(ids[1], &pair.second)) {
      return absl::InvalidArgumentError(absl::StrCat(start.name(), ": '", at->second, "' is no list of pairs"));
    }
    pairs.push_back(pair);
  }
  return pairs;
}

absl::StatusOr<bool> OrderTransfers(Module* module) {
  bool any = false, changed = false;
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) any = any || IsReceive(*i);
  }
  if (!any) return false;
  {
    TransferLists transfers;
    for (Computation* c : module->PostOrder()) {
      ASSIGN_OR_RETURN(bool moved, OrderComputation(c, transfers));
      changed |= moved;
    }
  }
  TransferLists transfers;  // in the new order
  RETURN_IF_ERROR(CheckForDeadlock(transfers.Get(module->entry())));
  return changed;
}

}  // namespace backplane
