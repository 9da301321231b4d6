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

constexpr size_t kMostSteps = 100000;  // of all devices together; beyond that nothing is foretold

bool BetweenDevices(const Instruction& start) { return !start.attrs().GetBool(AttrId::kIsHostTransfer); }
bool IsSend(const Instruction& i) { return i.Is(Opcode::kSend) && BetweenDevices(i); }
// A recv-done right behind its recv, the only form that is run.
bool IsReceipt(const Instruction& i) {
  return i.Is(Opcode::kRecvDone) && i.operand(0)->Is(Opcode::kRecv) && BetweenDevices(*i.operand(0));
}
const Instruction& StartOf(const Instruction& i) { return i.Is(Opcode::kRecvDone) ? *i.operand(0) : i; }
int64_t ChannelOf(const Instruction& i) { return StartOf(i).attrs().GetInt(AttrId::kChannelId); }

// The transfers in an instruction: itself, or those of the computations it calls, in order.
class Transfers {
 public:
  const std::vector<const Instruction*>& In(const Computation* c) {
    auto [at, fresh] = of_.try_emplace(c);
    if (!fresh) return *at->second;
    auto list = std::make_unique<std::vector<const Instruction*>>();
    for (const auto& i : c->instructions()) Add(*i, list.get());
    return *(of_[c] = std::move(list));
  }
  std::vector<const Instruction*> In(const Instruction& i) {
    std::vector<const Instruction*> list;
    Add(i, &list);
    return list;
  }

 private:
  void Add(const Instruction& i, std::vector<const Instruction*>* list) {
    if (IsSend(i) || IsReceipt(i)) list->push_back(&i);
    for (const Computation* called : i.called()) {
      const std::vector<const Instruction*>& inner = In(called);
      list->insert(list->end(), inner.begin(), inner.end());
    }
  }
  absl::flat_hash_map<const Computation*, std::unique_ptr<std::vector<const Instruction*>>> of_;
};

// One step of a computation, as far as its order matters here.
struct Step {
  Instruction* instruction;
  std::vector<int64_t> sends, waits;  // channels
  size_t missing = 0;                 // operands and control predecessors that are not placed yet
};

// Whether a receipt stands before the only send of its channel, counting within this computation.
absl::StatusOr<bool> OrderComputation(Computation* c, Transfers& transfers) {
  std::vector<Step> steps;
  absl::flat_hash_map<const Instruction*, size_t> place;
  absl::flat_hash_set<int64_t> sent, here;
  bool misplaced = false;
  for (Instruction* i : c->Snapshot()) {
    Step step{i, {}, {}};
    for (const Instruction* t : transfers.In(*i)) {
      (IsSend(*t) ? step.sends : step.waits).push_back(ChannelOf(*t));
      if (IsSend(*t)) here.insert(ChannelOf(*t));
    }
    place[i] = steps.size();
    steps.push_back(std::move(step));
  }
  for (const Step& s : steps) {
    sent.insert(s.sends.begin(), s.sends.end());
    for (int64_t channel : s.waits) misplaced = misplaced || (here.contains(channel) && !sent.contains(channel));
  }
  if (!misplaced) return false;
  // Again from the front, each time the first of these: what waits for nothing, what waits for a send that is there,
  // what waits.
  std::vector<std::vector<size_t>> next(steps.size());
  for (size_t k = 0; k < steps.size(); ++k) {
    absl::flat_hash_set<const Instruction*> inputs(steps[k].instruction->operands().begin(),
                                                   steps[k].instruction->operands().end());
    for (const Instruction* p : steps[k].instruction->control_predecessors()) inputs.insert(p);
    for (const Instruction* input : inputs) next[place[input]].push_back(k);
    steps[k].missing = inputs.size();
  }
  std::vector<size_t> ready;  // in the order of the list
  for (size_t k = 0; k < steps.size(); ++k) {
    if (steps[k].missing == 0) ready.push_back(k);
  }
  sent.clear();
  std::vector<size_t> senders;  // placed so far
  bool changed = false;
  while (!ready.empty()) {
    auto rank = [&](size_t k) {
      int rank = 0;
      for (int64_t channel : steps[k].waits) {
        const bool there = sent.contains(channel) || std::count(steps[k].sends.begin(), steps[k].sends.end(), channel);
        rank = std::max(rank, there ? 1 : 2);
      }
      return std::pair(rank, k);
    };
    const size_t k =
        *std::min_element(ready.begin(), ready.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
    ready.erase(std::find(ready.begin(), ready.end(), k));
    if (!steps[k].waits.empty()) {
      for (size_t s : senders) {
        if (s < k) continue;  // stood before it anyway
        Instruction* waits = steps[k].instruction;
        const auto& known = waits->control_predecessors();
        if (std::find(known.begin(), known.end(), steps[s].instruction) != known.end()) continue;
        waits->AddControlPredecessor(steps[s].instruction);
        changed = true;
      }
    }
    if (!steps[k].sends.empty()) senders.push_back(k);
    sent.insert(steps[k].sends.begin(), steps[k].sends.end());
    for (size_t n : next[k]) {
      if (--steps[n].missing == 0) ready.push_back(n);
    }
  }
  if (changed) c->SortTopologically();
  return changed;
}

// All devices side by side; InvalidArgument with the receipts at which they stay.
absl::Status GoThrough(const std::vector<const Instruction*>& list) {
  struct Channel {
    std::vector<size_t> sends, receipts;
    std::map<int64_t, int64_t> source;  // by target
  };
  std::map<int64_t, Channel> channels;
  for (size_t k = 0; k < list.size(); ++k) {
    Channel& channel = channels[ChannelOf(*list[k])];
    (IsSend(*list[k]) ? channel.sends : channel.receipts).push_back(k);
    if (IsSend(*list[k])) continue;
    ASSIGN_OR_RETURN(Pairs pairs, TransferPairs(StartOf(*list[k])));
    for (const auto& [source, target] : pairs) channel.source[target] = source;
  }
  absl::flat_hash_set<int64_t> known;
  std::map<int64_t, size_t> at;  // by device, how far it is
  for (const auto& [id, channel] : channels) {
    if (channel.sends.size() != 1 || channel.receipts.size() != 1) continue;
    known.insert(id);
    for (const auto& [target, source] : channel.source) at[target] = at[source] = 0;
  }
  if (at.size() * list.size() > kMostSteps) return absl::OkStatus();
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [device, k] : at) {
      for (; k < list.size(); ++k, moved = true) {
        if (IsSend(*list[k]) || !known.contains(ChannelOf(*list[k]))) continue;
        const Channel& channel = channels[ChannelOf(*list[k])];
        auto source = channel.source.find(device);
        if (source != channel.source.end() && at[source->second] <= channel.sends[0]) break;  // not sent yet
      }
    }
  }
  std::vector<std::string> stuck;
  for (const auto& [device, k] : at) {
    if (k == list.size()) continue;
    const Channel& channel = channels[ChannelOf(*list[k])];
    stuck.push_back(absl::StrCat("device ", device, " at ", list[k]->name(), " (channel ", ChannelOf(*list[k]),
                                 ") for device ", channel.source.at(device), " to reach ",
                                 list[channel.sends[0]]->name()));
    if (stuck.size() == 8) break;
  }
  if (stuck.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("channels: sends and receives wait for one another in a circle: ",
                                                 absl::StrJoin(stuck, "; "), " [channel_cycle]"));
}

}  // namespace

absl::StatusOr<Pairs> TransferPairs(const Instruction& start) {
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
    for (const auto& i : c->instructions()) any = any || IsReceipt(*i);
  }
  if (!any) return false;
  {
    Transfers transfers;
    for (Computation* c : module->PostOrder()) {
      ASSIGN_OR_RETURN(bool here, OrderComputation(c, transfers));
      changed |= here;
    }
  }
  Transfers transfers;  // in the new order
  RETURN_IF_ERROR(GoThrough(transfers.In(module->entry())));
  return changed;
}

}  // namespace backplane
