#include "core/analysis/transfer_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Module> Parsed(const std::string& entry, const std::string& computations = "") {
  absl::StatusOr<std::unique_ptr<Module>> m =
      ParseHloModule("HloModule m\n" + computations + "\nENTRY e {\n" + entry + "\n}\n");
  EXPECT_TRUE(m.ok()) << m.status();
  return m.ok() ? *std::move(m) : nullptr;
}

std::vector<std::string> TransfersOf(const Module& m) {
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

const char kBegin[] = "x = f32[2] parameter(0)\nt = token[] after-all()\n";

TEST(TransferOrder, ASendThatNeedsNothingGoesFirst) {
  auto m = Parsed(kBegin + Recv("r", 1, "t", "{{0,1},{1,0}}") + Send("s", 1, "t", "{{0,1},{1,0}}") +
                  "ROOT y = f32[2] get-tuple-element(rd), index=0");
  EXPECT_THAT(TransfersOf(*m), ElementsAre("rd", "s"));
  absl::StatusOr<bool> moved = OrderTransfers(m.get());
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_TRUE(*moved);
  EXPECT_THAT(TransfersOf(*m), ElementsAre("s", "rd"));
  EXPECT_TRUE(VerifyModule(*m).ok()) << VerifyModule(*m);
  EXPECT_FALSE(*OrderTransfers(m.get()));
  m->entry()->SortTopologically();  // as passes do
  EXPECT_THAT(TransfersOf(*m), ElementsAre("s", "rd"));
}

TEST(TransferOrder, ARingThatReceivesFirstIsRefused) {
  auto m = Parsed(kBegin + Recv("r", 1, "t", "{{0,1},{1,2},{2,0}}") + Send("s", 1, "rt", "{{0,1},{1,2},{2,0}}") +
                  "ROOT y = f32[2] get-tuple-element(rd), index=0");
  const absl::Status s = OrderTransfers(m.get()).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(s.message()), HasSubstr("device 0 at rd (channel 1) for device 2 to reach s"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("[channel_cycle]"));
}

TEST(TransferOrder, AChainThatReceivesFirstIsRight) {
  auto m = Parsed(kBegin + Recv("r", 1, "t", "{{0,1},{1,2}}") + Send("s", 1, "rt", "{{0,1},{1,2}}") +
                  "ROOT y = f32[2] get-tuple-element(rd), index=0");
  absl::StatusOr<bool> moved = OrderTransfers(m.get());
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_FALSE(*moved);
}

// The example of the specification: two computations, each of which receives before it sends to the other.
TEST(TransferOrder, TwoComputationsInACircle) {
  auto branch = [](const std::string& name, const std::string& first, const std::string& then) {
    return name + " {\n x." + name + " = f32[2] parameter(0)\n t." + name + " = token[] after-all()\n" + first + then +
           "ROOT y." + name + " = f32[2] get-tuple-element(r." + name + "d), index=0\n}\n";
  };
  auto program = [&](bool circle) {
    std::string send_b = Send("s.b", 1, circle ? "r.bt" : "t.b", "{{1,0}}");
    std::string send_a = Send("s.a", 2, "r.at", "{{0,1}}");
    send_b.replace(send_b.find("(x,"), 3, "(x.b,");
    send_a.replace(send_a.find("(x,"), 3, "(x.a,");
    return Parsed(
        "x = f32[2] parameter(0)\ni = pred[] parameter(1)\n"
        "ROOT y = f32[2] conditional(i, x, x), true_computation=a, false_computation=b",
        branch("a", Recv("r.a", 1, "t.a", "{{1,0}}"), send_a) + branch("b", Recv("r.b", 2, "t.b", "{{0,1}}"), send_b));
  };
  const absl::Status s = OrderTransfers(program(true).get()).status();
  EXPECT_THAT(std::string(s.message()), HasSubstr("[channel_cycle]"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("device 0 at r.ad (channel 1) for device 1 to reach s.b"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("device 1 at r.bd (channel 2) for device 0 to reach s.a"));
}

// What is sent only after another receipt must not be put in front of everything: 2 comes before 1 can.
TEST(TransferOrder, OrdersThatDependOnEachOther) {
  const std::string ring = "{{0,1},{1,0}}";
  auto m = Parsed(kBegin + Recv("r1", 1, "t", ring) + Send("s3", 3, "r1t", ring) + Recv("r2", 2, "t", ring) +
                  Send("s1", 1, "r2t", ring) + Send("s2", 2, "t", ring) + Recv("r3", 3, "t", ring) +
                  "ROOT y = f32[2] get-tuple-element(r3d), index=0");
  absl::StatusOr<bool> moved = OrderTransfers(m.get());
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_TRUE(*moved);
  EXPECT_THAT(TransfersOf(*m), ElementsAre("s2", "r2d", "s1", "r1d", "s3", "r3d"));
}

TEST(TransferOrder, TheHostIsNoDevice) {
  auto m = Parsed(
      "t = token[] after-all()\n"
      "r = (f32[2], u32[], token[]) recv(t), channel_id=1, is_host_transfer=true\n"
      "rd = (f32[2], token[]) recv-done(r), channel_id=1, is_host_transfer=true\n"
      "x = f32[2] get-tuple-element(rd), index=0\n rt = token[] get-tuple-element(rd), index=1\n"
      "s = (f32[2], u32[], token[]) send(x, rt), channel_id=1, is_host_transfer=true\n"
      "sd = token[] send-done(s), channel_id=1, is_host_transfer=true\nROOT y = f32[2] negate(x)");
  EXPECT_FALSE(*OrderTransfers(m.get()));
}

TEST(TransferOrder, PairsOfXla) {
  auto m = Parsed(
      "x = f32[2] parameter(0)\nt = token[] after-all()\n"
      "s = (f32[2], u32[], token[]) send(x, t), channel_id=1, "
      "frontend_attributes={_xla_send_recv_source_target_pairs={{0,1}, {1,2}}}\n"
      "sd = token[] send-done(s), channel_id=1\nROOT y = f32[2] negate(x)");
  for (const auto& i : m->entry()->instructions()) {
    if (!i->Is(Opcode::kSend)) continue;
    EXPECT_EQ(*TransferPairs(*i), (Pairs{{0, 1}, {1, 2}}));
    i->mutable_frontend_attributes()["_xla_send_recv_source_target_pairs"] = "{{0,1},{1,}}";
    EXPECT_EQ(TransferPairs(*i).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace backplane
