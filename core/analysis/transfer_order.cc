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

constexpr size_t kMaxEdges = 100000;           // of one computation; with more, receives are ordered behind each other
constexpr size_t kMaxSimulatedSteps = 100000;  // over all devices; larger programs are not checked

bool IsBetweenDevices(const Instruction& start) { return !start.attrs().GetBool(AttrId::kIsHostTransfer); }
bool IsSend(const Instruction& i) { return i.Is(Opcode::kSend) && IsBetweenDevices(i); }
// Backends execute a recv-done only if its operand is the recv itself.
bool IsReceive(const Instruction& i) {
  return i.Is(Opcode::kRecvDone) && i.operand(0)->Is(Opcode::kRecv) && IsBetweenDevices(*i.operand(0));
}
const Instruction& GetStart(const Instruction& i) { return i.Is(Opcode::kRecvDone) ? *i.operand(0) : i; }
int64_t GetChannel(const Instruction& i) { return GetStart(i).attrs().GetInt(AttrId::kChannelId); }

// The channels of the transfers that an instruction or a computation executes, including those of called computations.
// Each channel is listed once.
struct Channels {
  std::vector<int64_t> sends, receives;
};

// Caches the channels of computations. Ask for called computations first: then no call recurses.
class ChannelLists {
 public:
  const Channels& Get(const Computation* c) {
    auto [at, is_new] = lists_.try_emplace(c);
    if (!is_new) return *at->second;
    Builder builder;
    for (const auto& i : c->instructions()) Append(*i, &builder);
    return *(lists_[c] = std::make_unique<Channels>(std::move(builder.channels)));
  }
  Channels Get(const Instruction& i) {
    Builder builder;
    Append(i, &builder);
    return std::move(builder.channels);
  }

 private:
  struct Builder {
    Channels channels;
    absl::flat_hash_set<int64_t> sends, receives;
    void AddSend(int64_t channel) {
      if (sends.insert(channel).second) channels.sends.push_back(channel);
    }
    void AddReceive(int64_t channel) {
      if (receives.insert(channel).second) channels.receives.push_back(channel);
    }
  };
  void Append(const Instruction& i, Builder* builder) {
    if (IsSend(i)) builder->AddSend(GetChannel(i));
    if (IsReceive(i)) builder->AddReceive(GetChannel(i));
    for (const Computation* called : i.called()) {
      const Channels& inner = Get(called);
      for (int64_t channel : inner.sends) builder->AddSend(channel);
      for (int64_t channel : inner.receives) builder->AddReceive(channel);
    }
  }
  absl::flat_hash_map<const Computation*, std::unique_ptr<Channels>> lists_;
};

// An instruction of the computation that is being ordered.
struct Step {
  Instruction* instruction;
  Channels channels;
  size_t unplaced_inputs = 0;  // operands and control predecessors
  size_t unsent = 0;           // channels that it receives and that have not been sent
};

// A receiver, and how many senders were placed before it.
struct PlacedReceiver {
  size_t step, senders;
};

// Returns the control predecessors, as pairs of steps, that make each receiver follow the senders placed before it.
std::vector<std::pair<size_t, size_t>> ListNewEdges(const std::vector<size_t>& senders,
                                                    const std::vector<PlacedReceiver>& receivers) {
  std::vector<std::pair<size_t, size_t>> edges;
  size_t sum = 0;
  for (const PlacedReceiver& r : receivers) sum += r.senders;
  if (sum <= kMaxEdges) {
    for (const PlacedReceiver& r : receivers) {
      for (size_t n = 0; n < r.senders; ++n) {
        if (senders[n] > r.step) edges.emplace_back(senders[n], r.step);  // others precede it already
      }
    }
    return edges;
  }
  // Here each receiver also follows the receiver before it, and through it all senders before that one.
  bool moved = false;
  size_t latest = 0;
  for (size_t k = 0, n = 0; k < receivers.size(); ++k) {
    const PlacedReceiver& r = receivers[k];
    if (n > 0) edges.emplace_back(receivers[k - 1].step, r.step);
    for (; n < r.senders; ++n) {
      latest = std::max(latest, senders[n]);
      edges.emplace_back(senders[n], r.step);
    }
    moved = moved || (n > 0 && latest > r.step);
  }
  if (!moved) edges.clear();
  return edges;
}

// Reorders the transfers of one computation. Returns whether the order changed.
bool OrderComputation(Computation* c, ChannelLists& channels) {
  std::vector<Step> steps;
  absl::flat_hash_map<const Instruction*, size_t> index_of;
  absl::flat_hash_set<int64_t> sent, sent_anywhere;  // channels with a send so far, with a send at all
  bool receive_before_send = false;
  for (Instruction* i : c->Snapshot()) {
    Step step{i, channels.Get(*i)};
    sent_anywhere.insert(step.channels.sends.begin(), step.channels.sends.end());
    index_of[i] = steps.size();
    steps.push_back(std::move(step));
  }
  for (const Step& s : steps) {
    sent.insert(s.channels.sends.begin(), s.channels.sends.end());
    for (int64_t channel : s.channels.receives) {
      if (sent_anywhere.contains(channel) && !sent.contains(channel)) receive_before_send = true;
    }
  }
  if (!receive_before_send) return false;
  // List scheduling. Among the ready steps the preferred one has the lowest rank: 0 receives nothing, 1 receives only
  // what has been sent, 2 would block. Ties keep the original order.
  std::vector<std::vector<size_t>> next(steps.size());
  absl::flat_hash_map<int64_t, std::vector<size_t>> waiting;  // the steps that receive a channel before it is sent
  for (size_t k = 0; k < steps.size(); ++k) {
    Step& step = steps[k];
    absl::flat_hash_set<const Instruction*> inputs(step.instruction->operands().begin(),
                                                   step.instruction->operands().end());
    for (const Instruction* p : step.instruction->control_predecessors()) inputs.insert(p);
    for (const Instruction* input : inputs) next[index_of[input]].push_back(k);
    step.unplaced_inputs = inputs.size();
    if (step.channels.receives.empty()) continue;
    const absl::flat_hash_set<int64_t> own(step.channels.sends.begin(), step.channels.sends.end());
    for (int64_t channel : step.channels.receives) {
      if (own.contains(channel)) continue;
      waiting[channel].push_back(k);
      ++step.unsent;
    }
  }
  std::set<std::pair<int, size_t>> ready;  // by rank
  auto rank = [&](size_t k) { return steps[k].channels.receives.empty() ? 0 : steps[k].unsent == 0 ? 1 : 2; };
  for (size_t k = 0; k < steps.size(); ++k) {
    if (steps[k].unplaced_inputs == 0) ready.emplace(rank(k), k);
  }
  std::vector<size_t> senders;  // in the order of placement
  std::vector<PlacedReceiver> receivers;
  while (!ready.empty()) {
    const size_t k = ready.begin()->second;
    ready.erase(ready.begin());
    const Step& step = steps[k];
    if (!step.channels.receives.empty()) receivers.push_back({k, senders.size()});
    if (!step.channels.sends.empty()) senders.push_back(k);
    for (int64_t channel : step.channels.sends) {
      auto waiters = waiting.find(channel);
      if (waiters == waiting.end()) continue;
      for (size_t w : waiters->second) {
        const bool is_ready = ready.erase({rank(w), w}) > 0;
        --steps[w].unsent;
        if (is_ready) ready.emplace(rank(w), w);
      }
      waiting.erase(waiters);
    }
    for (size_t n : next[k]) {
      if (--steps[n].unplaced_inputs == 0) ready.emplace(rank(n), n);
    }
  }
  // A receive follows all senders placed before it, not only that of its channel: another device may wait for any of
  // them, and this one for that device.
  const std::vector<std::pair<size_t, size_t>> edges = ListNewEdges(senders, receivers);
  absl::flat_hash_set<std::pair<const Instruction*, const Instruction*>> known;
  for (const Step& step : steps) {
    for (const Instruction* p : step.instruction->control_predecessors()) known.emplace(p, step.instruction);
  }
  bool changed = false;
  for (const auto& [before, after] : edges) {
    Instruction *from = steps[before].instruction, *to = steps[after].instruction;
    if (!known.emplace(from, to).second) continue;
    to->AddControlPredecessor(from);
    changed = true;
  }
  if (changed) c->SortTopologically();
  return changed;
}

// Lists the transfers that a device executes, in order. Those of computations that are called several times are left
// out; their channels are added to `repeated`.
std::vector<const Instruction*> ListTransfers(const Module& module, absl::flat_hash_set<int64_t>* repeated) {
  const std::vector<Computation*> order = module.PostOrder();
  absl::flat_hash_map<const Computation*, int> calls;  // 2: twice or more
  calls[module.entry()] = 1;
  for (auto c = order.rbegin(); c != order.rend(); ++c) {
    const int times = calls[*c];
    for (const auto& i : (*c)->instructions()) {
      for (const Computation* called : i->called()) {
        int& sum = calls[called];
        sum = std::min(2, sum + times);
      }
      if (times > 1 && (IsSend(*i) || IsReceive(*i))) repeated->insert(GetChannel(*i));
    }
  }
  // A computation that is called once has one place in the list, so its transfers are listed once.
  absl::flat_hash_map<const Computation*, std::vector<const Instruction*>> lists;
  for (const Computation* c : order) {
    if (calls[c] != 1) continue;
    std::vector<const Instruction*> list;
    for (const auto& i : c->instructions()) {
      if (IsSend(*i) || IsReceive(*i)) list.push_back(i.get());
      for (const Computation* called : i->called()) {
        if (calls[called] != 1) continue;
        std::vector<const Instruction*>& inner = lists[called];
        if (list.empty()) list.swap(inner);
        list.insert(list.end(), inner.begin(), inner.end());
        inner.clear();
      }
    }
    lists[c] = std::move(list);
  }
  return std::move(lists[module.entry()]);
}

// Simulates the transfers on all devices. Returns InvalidArgument if some devices block for ever, naming the receives
// that they block at.
absl::Status CheckForDeadlock(const Module& module) {
  struct Channel {
    std::vector<const Instruction*> sends, receives;
    absl::flat_hash_map<int64_t, int64_t> source;  // by target
    size_t send_position = 0;                      // in `list`
  };
  absl::flat_hash_set<int64_t> repeated;
  std::vector<const Instruction*> all = ListTransfers(module, &repeated);
  std::map<int64_t, Channel> channels;
  for (const Instruction* t : all) {
    Channel& channel = channels[GetChannel(*t)];
    (IsSend(*t) ? channel.sends : channel.receives).push_back(t);
    if (IsSend(*t)) continue;
    ASSIGN_OR_RETURN(Pairs pairs, GetTransferPairs(GetStart(*t)));
    for (const auto& [source, target] : pairs) channel.source[target] = source;
  }
  std::erase_if(channels, [&](const auto& c) {
    return c.second.sends.size() != 1 || c.second.receives.size() != 1 || repeated.contains(c.first);
  });
  std::vector<std::pair<const Instruction*, const Channel*>> list;
  for (const Instruction* t : all) {
    auto channel = channels.find(GetChannel(*t));
    if (channel == channels.end()) continue;
    if (IsSend(*t)) channel->second.send_position = list.size();
    list.emplace_back(t, &channel->second);
  }
  struct Device {
    size_t position = 0;                             // in `list`
    std::map<size_t, std::vector<int64_t>> waiting;  // devices, by the position of the send that they wait for
  };
  std::map<int64_t, Device> devices;
  for (const auto& [id, channel] : channels) {
    for (const auto& [target, source] : channel.source) devices[target], devices[source];
  }
  if (devices.size() * list.size() > kMaxSimulatedSteps) return absl::OkStatus();
  std::vector<int64_t> work;
  for (const auto& [id, device] : devices) work.push_back(id);
  while (!work.empty()) {
    const int64_t id = work.back();
    work.pop_back();
    Device& device = devices.at(id);
    for (size_t& k = device.position; k < list.size(); ++k) {
      const auto& [transfer, channel] = list[k];
      if (IsSend(*transfer)) continue;
      auto source = channel->source.find(id);
      if (source == channel->source.end()) continue;
      Device& sender = devices.at(source->second);
      if (sender.position > channel->send_position) continue;
      sender.waiting[channel->send_position].push_back(id);  // not sent yet
      break;
    }
    while (!device.waiting.empty() && device.waiting.begin()->first < device.position) {
      work.insert(work.end(), device.waiting.begin()->second.begin(), device.waiting.begin()->second.end());
      device.waiting.erase(device.waiting.begin());
    }
  }
  std::vector<std::string> blocked;
  for (const auto& [id, device] : devices) {
    if (device.position == list.size()) continue;
    const auto& [transfer, channel] = list[device.position];
    blocked.push_back(absl::StrCat("device ", id, " at ", transfer->name(), " (channel ", GetChannel(*transfer),
                                   ") waits for device ", channel->source.at(id), " to reach ",
                                   channel->sends[0]->name()));
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
  ChannelLists channels;
  for (Computation* c : module->PostOrder()) {
    changed |= OrderComputation(c, channels);
    channels.Get(c);  // for its callers
  }
  RETURN_IF_ERROR(CheckForDeadlock(*module));
  return changed;
}

}  // namespace backplane
