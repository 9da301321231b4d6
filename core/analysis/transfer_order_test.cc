#include "core/analysis/transfer_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Module> ParseEntry(const std::string& entry, const std::string& computations = "") {
  absl::StatusOr<std::unique_ptr<Module>> m =
      ParseHloModule("HloModule m\n" + computations + "\nENTRY e {\n" + entry + "\n}\n");
  EXPECT_TRUE(m.ok()) << m.status();
  return m.ok() ? *std::move(m) : nullptr;
}

std::vector<std::string> ListTransfers(const Module& m) {
  std::vector<std::string> names;
  for (const auto& i : m.entry()->instructions()) {
    if (i->Is(Opcode::kSend) || i->Is(Opcode::kRecvDone)) names.emplace_back(i->name());
  }
  return names;
}

std::string Recv(const std::string& name, int channel, const std::string& token, const std::string& pairs) {
  return absl::StrCat(name, " = (f32[2], u32[], token[]) recv(", token, "), channel_id=", channel,
                      ", source_target_pairs=", pairs, "\n", name, "d = (f32[2], token[]) recv-done(", name,
                      "), channel_id=", channel, "\n", name, "t = token[] get-tuple-element(", name, "d), index=1\n");
}

std::string Send(const std::string& name, int channel, const std::string& token, const std::string& pairs) {
  return absl::StrCat(name, " = (f32[2], u32[], token[]) send(x, ", token, "), channel_id=", channel,
                      ", source_target_pairs=", pairs, "\n", name, "d = token[] send-done(", name,
                      "), channel_id=", channel, "\n");
}

const char kPrologue[] = "x = f32[2] parameter(0)\nt = token[] after-all()\n";

TEST(TransferOrder, MovesIndependentSendBeforeReceive) {
  auto m = ParseEntry(kPrologue + Recv("r", 1, "t", "{{0,1},{1,0}}") + Send("s", 1, "t", "{{0,1},{1,0}}") +
                      "ROOT y = f32[2] get-tuple-element(rd), index=0");
  EXPECT_THAT(ListTransfers(*m), ElementsAre("rd", "s"));
  absl::StatusOr<bool> moved = OrderTransfers(m.get());
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_TRUE(*moved);
  EXPECT_THAT(ListTransfers(*m), ElementsAre("s", "rd"));
  EXPECT_TRUE(VerifyModule(*m).ok()) << VerifyModule(*m);
  EXPECT_FALSE(*OrderTransfers(m.get()));
  m->entry()->SortTopologically();  // later passes do this; the order must survive
  EXPECT_THAT(ListTransfers(*m), ElementsAre("s", "rd"));
}

TEST(TransferOrder, RejectsRingThatReceivesFirst) {
  auto m = ParseEntry(kPrologue + Recv("r", 1, "t", "{{0,1},{1,2},{2,0}}") + Send("s", 1, "rt", "{{0,1},{1,2},{2,0}}") +
                      "ROOT y = f32[2] get-tuple-element(rd), index=0");
  const absl::Status s = OrderTransfers(m.get()).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(s.message()), HasSubstr("device 0 at rd (channel 1) waits for device 2 to reach s"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("[channel_cycle]"));
}

TEST(TransferOrder, AcceptsChainThatReceivesFirst) {
  auto m = ParseEntry(kPrologue + Recv("r", 1, "t", "{{0,1},{1,2}}") + Send("s", 1, "rt", "{{0,1},{1,2}}") +
                      "ROOT y = f32[2] get-tuple-element(rd), index=0");
  absl::StatusOr<bool> moved = OrderTransfers(m.get());
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_FALSE(*moved);
}

// The example of the StableHLO specification: two computations that each receive before they send to the other.
TEST(TransferOrder, RejectsCycleOverTwoComputations) {
  auto branch = [](const std::string& name, const std::string& first, const std::string& then) {
    return name + " {\n x." + name + " = f32[2] parameter(0)\n t." + name + " = token[] after-all()\n" + first + then +
           "ROOT y." + name + " = f32[2] get-tuple-element(r." + name + "d), index=0\n}\n";
  };
  auto program = [&](bool cycle) {
    std::string send_b = Send("s.b", 1, cycle ? "r.bt" : "t.b", "{{1,0}}");
    std::string send_a = Send("s.a", 2, "r.at", "{{0,1}}");
    send_b.replace(send_b.find("(x,"), 3, "(x.b,");
    send_a.replace(send_a.find("(x,"), 3, "(x.a,");
    return ParseEntry(
        "x = f32[2] parameter(0)\ni = pred[] parameter(1)\n"
        "ROOT y = f32[2] conditional(i, x, x), true_computation=a, false_computation=b",
        branch("a", Recv("r.a", 1, "t.a", "{{1,0}}"), send_a) + branch("b", Recv("r.b", 2, "t.b", "{{0,1}}"), send_b));
  };
  const absl::Status s = OrderTransfers(program(true).get()).status();
  EXPECT_THAT(std::string(s.message()), HasSubstr("[channel_cycle]"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("device 0 at r.ad (channel 1) waits for device 1 to reach s.b"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("device 1 at r.bd (channel 2) waits for device 0 to reach s.a"));
}

// Each send depends on the receive of another channel, so only the order 2, 1, 3 works.
TEST(TransferOrder, OrdersDependentChannels) {
  const std::string ring = "{{0,1},{1,0}}";
  auto m = ParseEntry(kPrologue + Recv("r1", 1, "t", ring) + Send("s3", 3, "r1t", ring) + Recv("r2", 2, "t", ring) +
                      Send("s1", 1, "r2t", ring) + Send("s2", 2, "t", ring) + Recv("r3", 3, "t", ring) +
                      "ROOT y = f32[2] get-tuple-element(r3d), index=0");
  absl::StatusOr<bool> moved = OrderTransfers(m.get());
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_TRUE(*moved);
  EXPECT_THAT(ListTransfers(*m), ElementsAre("s2", "r2d", "s1", "r1d", "s3", "r3d"));
}

TEST(TransferOrder, IgnoresHostTransfers) {
  auto m = ParseEntry(
      "t = token[] after-all()\n"
      "r = (f32[2], u32[], token[]) recv(t), channel_id=1, is_host_transfer=true\n"
      "rd = (f32[2], token[]) recv-done(r), channel_id=1, is_host_transfer=true\n"
      "x = f32[2] get-tuple-element(rd), index=0\n rt = token[] get-tuple-element(rd), index=1\n"
      "s = (f32[2], u32[], token[]) send(x, rt), channel_id=1, is_host_transfer=true\n"
      "sd = token[] send-done(s), channel_id=1, is_host_transfer=true\nROOT y = f32[2] negate(x)");
  EXPECT_FALSE(*OrderTransfers(m.get()));
}

TEST(TransferOrder, ReadsXlaFrontendAttribute) {
  auto m = ParseEntry(
      "x = f32[2] parameter(0)\nt = token[] after-all()\n"
      "s = (f32[2], u32[], token[]) send(x, t), channel_id=1, "
      "frontend_attributes={_xla_send_recv_source_target_pairs={{0,1}, {1,2}}}\n"
      "sd = token[] send-done(s), channel_id=1\nROOT y = f32[2] negate(x)");
  for (const auto& i : m->entry()->instructions()) {
    if (!i->Is(Opcode::kSend)) continue;
    EXPECT_EQ(*GetTransferPairs(*i), (Pairs{{0, 1}, {1, 2}}));
    i->mutable_frontend_attributes()["_xla_send_recv_source_target_pairs"] = "{{0,1},{1,}}";
    EXPECT_EQ(GetTransferPairs(*i).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// Device k waits for device k + 1 before it sends. They have to be simulated from the last to the first.
TEST(TransferOrder, SimulatesALongChainOfDevices) {
  constexpr int kDevices = 20000;
  std::string chain;
  for (int k = 0; k + 1 < kDevices; ++k) absl::StrAppend(&chain, k > 0 ? "," : "", "{", k + 1, ",", k, "}");
  for (const bool ring : {false, true}) {
    const std::string pairs = absl::StrCat("{", chain, ring ? absl::StrCat(",{0,", kDevices - 1, "}") : "", "}");
    auto m = ParseEntry(kPrologue + Recv("r", 1, "t", pairs) + Send("s", 1, "rt", pairs) +
                        "ROOT y = f32[2] get-tuple-element(rd), index=0");
    const absl::Status s = OrderTransfers(m.get()).status();
    EXPECT_EQ(s.code(), ring ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kOk) << s;
  }
}

TEST(TransferOrder, OrdersManyTransfers) {
  constexpr int kCount = 8000;
  const std::string pairs = "{{0,1},{1,0}}";
  std::string text = kPrologue, received;
  for (int k = 1; k <= kCount; ++k) {
    absl::StrAppend(&text, Recv(absl::StrCat("r", k), k, "t", pairs));
    absl::StrAppend(&received, k > 1 ? ", " : "", "r", k, "t");
  }
  for (int k = 1; k <= kCount; ++k) absl::StrAppend(&text, Send(absl::StrCat("s", k), k, "t", pairs));
  auto m = ParseEntry(text + "all = token[] after-all(" + received + ")\nROOT y = f32[2] negate(x)");
  absl::StatusOr<bool> moved = OrderTransfers(m.get());
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_TRUE(*moved);
  size_t predecessors = 0;
  int64_t sent = 0, received_before_send = 0;
  absl::flat_hash_set<int64_t> channels;
  for (const auto& i : m->entry()->instructions()) {
    predecessors += i->control_predecessors().size();
    if (i->Is(Opcode::kSend)) channels.insert(i->attrs().GetInt(AttrId::kChannelId)), ++sent;
    if (i->Is(Opcode::kRecvDone)) {
      received_before_send += channels.contains(i->operand(0)->attrs().GetInt(AttrId::kChannelId)) ? 0 : 1;
    }
  }
  EXPECT_EQ(sent, kCount);
  EXPECT_EQ(received_before_send, 0);
  EXPECT_LE(predecessors, size_t{2 * kCount});  // not one for each pair
  EXPECT_FALSE(*OrderTransfers(m.get()));
}

// A receive that blocks in any case follows the sends that other devices may wait for.
TEST(TransferOrder, SendsBeforeItBlocks) {
  std::string text = kPrologue + Recv("rx", 1, "t", "{{1,0}}") + Recv("ry", 2, "t", "{{0,1}}");
  absl::StrAppend(&text, "both = token[] after-all(rxt, ryt)\n", Send("sx", 1, "both", "{{1,0}}"),
                  Send("sy", 2, "t", "{{0,1}}"));
  auto m = ParseEntry(text + "ROOT y = f32[2] get-tuple-element(rxd), index=0");
  absl::StatusOr<bool> moved = OrderTransfers(m.get());
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_TRUE(*moved);
  EXPECT_FALSE(*OrderTransfers(m.get()));
}

// Each computation calls the one before it twice, so the transfers are executed 2^40 times.
TEST(TransferOrder, CountsSharedComputationsOnce) {
  std::string first = "f0 {\np = f32[2] parameter(0)\nt = token[] after-all()\n" + Recv("r", 1, "t", "{{0,1}}") +
                      Send("s", 1, "t", "{{0,1}}") + "ROOT g = f32[2] get-tuple-element(rd), index=0\n}\n";
  first.replace(first.find("send(x,"), 7, "send(p,");
  for (int k = 1; k <= 40; ++k) {
    absl::StrAppend(&first, "f", k, " {\np", k, " = f32[2] parameter(0)\nq", k, " = f32[2] call(p", k, "), to_apply=f",
                    k - 1, "\nROOT v", k, " = f32[2] call(q", k, "), to_apply=f", k - 1, "\n}\n");
  }
  auto m = ParseEntry("x = f32[2] parameter(0)\nROOT y = f32[2] call(x), to_apply=f40", first);
  absl::StatusOr<bool> moved = OrderTransfers(m.get());
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_TRUE(*moved);
}

}  // namespace
}  // namespace backplane
