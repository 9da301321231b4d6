// Tests the profiler extension: the events that a backend records between start and stop are returned as an XSpace.
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "api/extensions/profiler.h"
#include "base/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/backend/operation_trace.h"
#include "sdk/testing/api_calls.h"

namespace backplane::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const PLUGIN_Profiler_Api& ProfilerApi() {
  for (const PJRT_Extension_Base* e = Api().extension_start; e != nullptr; e = e->next) {
    if (e->type == PJRT_Extension_Type_Profiler)
      return *reinterpret_cast<const PJRT_Profiler_Extension*>(e)->profiler_api;
  }
  std::abort();
}

std::string TakeMessage(PLUGIN_Profiler_Error* error) {
  if (error == nullptr) return "";
  PLUGIN_Profiler_Error_Message_Args m{PLUGIN_Profiler_Error_Message_Args_STRUCT_SIZE, nullptr, error};
  ProfilerApi().error_message(&m);
  PLUGIN_Profiler_Error_GetCode_Args c{PLUGIN_Profiler_Error_GetCode_Args_STRUCT_SIZE, nullptr, error};
  EXPECT_EQ(ProfilerApi().error_get_code(&c), nullptr);
  EXPECT_NE(c.code, 0);
  std::string message(m.message, m.message_size);
  PLUGIN_Profiler_Error_Destroy_Args d{PLUGIN_Profiler_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
  ProfilerApi().error_destroy(&d);
  return message;
}

struct Session {
  PLUGIN_Profiler* profiler = nullptr;
  Session() {
    PLUGIN_Profiler_Create_Args c{PLUGIN_Profiler_Create_Args_STRUCT_SIZE, "", 0, nullptr};
    EXPECT_EQ(ProfilerApi().create(&c), nullptr);
    profiler = c.profiler;
  }
  ~Session() {
    PLUGIN_Profiler_Destroy_Args d{PLUGIN_Profiler_Destroy_Args_STRUCT_SIZE, profiler};
    EXPECT_EQ(ProfilerApi().destroy(&d), nullptr);
  }
  std::string Start() {
    PLUGIN_Profiler_Start_Args s{PLUGIN_Profiler_Start_Args_STRUCT_SIZE, profiler};
    return TakeMessage(ProfilerApi().start(&s));
  }
  void Stop() {
    PLUGIN_Profiler_Stop_Args s{PLUGIN_Profiler_Stop_Args_STRUCT_SIZE, profiler};
    EXPECT_EQ(ProfilerApi().stop(&s), nullptr);
  }
  std::string Collect() {
    PLUGIN_Profiler_CollectData_Args d{PLUGIN_Profiler_CollectData_Args_STRUCT_SIZE, profiler, nullptr, 0};
    EXPECT_EQ(ProfilerApi().collect_data(&d), nullptr);
    EXPECT_NE(d.buffer, nullptr);  // hosts read it without a second call
    const std::string lent(reinterpret_cast<const char*>(d.buffer), d.buffer_size_in_bytes);
    std::string bytes(d.buffer_size_in_bytes, '\0');
    d.buffer = reinterpret_cast<uint8_t*>(bytes.data());
    EXPECT_EQ(ProfilerApi().collect_data(&d), nullptr);
    EXPECT_EQ(bytes, lent);
    return bytes;
  }
};

// Returns "plane / line: name@offset+duration(module, op) ..." for each line of a space, with the field numbers of
// xplane.proto.
std::vector<std::string> Lines(const std::string& space) {
  std::vector<std::string> out;
  WireReader planes(space);
  while (planes.Next()) {
    if (planes.field != 1) continue;
    std::string name;
    std::map<uint64_t, std::string> events, stats;
    std::vector<absl::string_view> lines;
    WireReader plane(planes.bytes);
    while (plane.Next()) {
      if (plane.field == 2) name = std::string(plane.bytes);
      if (plane.field == 3) lines.push_back(plane.bytes);
      if (plane.field != 4 && plane.field != 5) continue;
      const int field = plane.field;
      WireReader entry(plane.bytes);
      uint64_t key = 0;
      std::string value;
      while (entry.Next()) {
        if (entry.field == 1) key = entry.value;
        if (entry.field != 2) continue;
        WireReader metadata(entry.bytes);
        while (metadata.Next()) {
          if (metadata.field == 1) {
            EXPECT_EQ(metadata.value, key);
          }
          if (metadata.field == 2) value = std::string(metadata.bytes);
        }
      }
      (field == 4 ? events : stats)[key] = value;
    }
    for (absl::string_view bytes : lines) {
      std::string text = name + " /";
      WireReader line(bytes);
      uint64_t base = 0;
      while (line.Next()) {
        if (line.field == 2) text += " " + std::string(line.bytes.substr(0, line.bytes.find(' '))) + ":";
        if (line.field == 3) base = line.value;
        if (line.field != 4) continue;
        uint64_t id = 0, offset = 0, duration = 0;
        std::string told;
        WireReader event(line.bytes);
        while (event.Next()) {
          if (event.field == 1) id = event.value;
          if (event.field == 2) offset = event.value;
          if (event.field == 3) duration = event.value;
          if (event.field != 4) continue;
          WireReader stat(event.bytes);
          uint64_t key = 0, reference = 0;
          while (stat.Next()) (stat.field == 1 ? key : reference) = stat.value;
          told += (told.empty() ? "" : ",") + stats[key] + "=" + stats[reference];
        }
        text += " " + events[id] + "@" + std::to_string(base + offset / 1000) + "+" + std::to_string(duration) + "(" +
                told + ")";
      }
      out.push_back(text);
    }
  }
  return out;
}

TEST(Profiler, WhatIsRecordedBetweenStartAndStop) {
  OperationTrace& trace = OperationTrace::Get();
  EXPECT_FALSE(trace.Active());
  trace.Record(0, false, "early", "m", 1, 2);
  Session session;
  EXPECT_EQ(session.Start(), "");
  EXPECT_TRUE(trace.Active());
  EXPECT_THAT(session.Start(), HasSubstr("started twice"));
  trace.Record(1, false, "dot.1", "jit_f", 1005, 1010);
  trace.Record(1, false, "fusion", "jit_f", 1000, 1005);
  trace.Record(1, true, "jit_f", "jit_f", 1000, 1010);
  trace.Record(0, false, "dot.1", "jit_g", 2000, 2001);
  Session second;
  EXPECT_EQ(second.Start(), "");
  trace.Record(0, false, "late", "jit_g", 3000, 3000);
  session.Stop();
  EXPECT_TRUE(trace.Active());
  second.Stop();
  EXPECT_FALSE(trace.Active());
  trace.Record(0, false, "after", "m", 5, 6);
  EXPECT_THAT(Lines(session.Collect()),
              ElementsAre("/device:CUSTOM:fake:0 / Operations: dot.1@2000+1000(hlo_module=jit_g,hlo_op=dot.1) "
                          "late@3000+0(hlo_module=jit_g,hlo_op=late)",
                          "/device:CUSTOM:fake:1 / Programs: jit_f@1000+10000(hlo_module=jit_f)",
                          "/device:CUSTOM:fake:1 / Operations: fusion@1000+5000(hlo_module=jit_f,hlo_op=fusion) "
                          "dot.1@1005+5000(hlo_module=jit_f,hlo_op=dot.1)"));
  EXPECT_THAT(Lines(second.Collect()),
              ElementsAre("/device:CUSTOM:fake:0 / Operations: late@3000+0(hlo_module=jit_g,hlo_op=late)"));
}

// XLA's hosts up to JAX 0.10 compare the size for equality; all hosts leave the sizes of arguments unset.
TEST(Profiler, TheTableEndsWhereHostsUpTo010WantIt) {
  EXPECT_EQ(ProfilerApi().struct_size, 80u);
  PLUGIN_Profiler_Create_Args c{size_t{0x5a5a}, "", 0, nullptr};
  ASSERT_EQ(ProfilerApi().create(&c), nullptr);
  PLUGIN_Profiler_Destroy_Args d{0, c.profiler};
  EXPECT_EQ(ProfilerApi().destroy(&d), nullptr);
}

TEST(Profiler, WrongCallsSayWhy) {
  PLUGIN_Profiler_Start_Args s{PLUGIN_Profiler_Start_Args_STRUCT_SIZE, nullptr};
  EXPECT_THAT(TakeMessage(ProfilerApi().start(&s)), HasSubstr("profiler"));
  EXPECT_THAT(TakeMessage(ProfilerApi().start(nullptr)), HasSubstr("null"));
  {
    Session open;  // destroyed while it is recording
    EXPECT_EQ(open.Start(), "");
  }
  EXPECT_FALSE(OperationTrace::Get().Active());
}

}  // namespace
}  // namespace backplane::testing
