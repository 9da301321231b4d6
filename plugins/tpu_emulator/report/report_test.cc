// Documents, traces, summaries and the report folder, from schedules made by hand with the clock's own times.
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "plugins/tpu_emulator/report/report_folder.h"
#include "plugins/tpu_emulator/report/report_json.h"
#include "plugins/tpu_emulator/report/summary.h"
#include "plugins/tpu_emulator/report/timeline.h"
#include "plugins/tpu_emulator/report/trace_json.h"

namespace backplane::tpu {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const Machine& V5e() { return *FindMachine("v5e"); }

ScheduledKernel Product(const std::string& name, int64_t size) {
  ScheduledKernel k;
  k.name = name;
  k.category = "matmul";
  k.contents = "convolution, add";
  k.origin = {"jit(f)/dot_general", "f.py", 7};
  KernelWork work;
  work.matmul.emplace();
  work.matmul->m = work.matmul->n = work.matmul->k = size;
  k.time = TimeKernel(V5e(), work);
  k.flops = k.time.flops;
  k.hbm_bytes = k.time.hbm_bytes;
  return k;
}

ScheduledKernel Sum(const std::string& name, int64_t bytes) {
  ScheduledKernel k;
  k.name = name;
  k.category = "elementwise";
  KernelWork work;
  work.hbm_read_bytes = bytes;
  work.hbm_written_bytes = bytes / 2;
  work.vector = {{VectorOp::kSimple, bytes / 4096}};
  k.time = TimeKernel(V5e(), work);
  k.flops = static_cast<double>(bytes) / 4;
  k.hbm_bytes = 1.5 * static_cast<double>(bytes);
  return k;
}

// first, while.1 (trip_count) { product, while.2 (3) { sum, sum.2 }, tail }, last
Schedule NestedLoops(int64_t trip_count) {
  Schedule s;
  s.module_name = "jit_f";
  s.machine_name = "v5e";
  s.kernels = {Sum("first", 1 << 20), Product("product", 1024), Sum("sum", 1 << 22),
               Sum("sum.2", 1 << 16), Sum("tail", 1 << 18),     Product("last", 512)};
  s.loops = {{"while.1", -1, trip_count, true, 1, 5}, {"while.2", 0, 3, true, 2, 4}};
  const auto& k = s.kernels;
  for (size_t i = 1; i < 5; ++i) s.kernels[i].executions = trip_count, s.kernels[i].loop = 0;
  for (size_t i = 2; i < 4; ++i) s.kernels[i].executions = 3 * trip_count, s.kernels[i].loop = 1;
  double at = 0;
  auto place = [&](size_t i) { s.kernels[i].start_seconds = at, at += k[i].time.seconds; };
  place(0), place(1), place(2), place(3);
  at += 2 * (k[2].time.seconds + k[3].time.seconds);
  place(4);
  at += static_cast<double>(trip_count - 1) * (at - k[1].start_seconds);
  place(5);
  for (const ScheduledKernel& kernel : s.kernels) {
    const double n = static_cast<double>(kernel.executions);
    s.seconds += n * kernel.time.seconds;
    s.cycles += n * kernel.time.cycles;
    s.flops += n * kernel.flops;
    s.hbm_bytes += n * kernel.hbm_bytes;
  }
  EXPECT_NEAR(s.seconds, at, 1e-12 * static_cast<double>(trip_count));
  s.hbm_in_use = {100, 300, 300, 500, 300, 200};
  s.hbm_capacity = V5e().hbm_bytes;
  s.hbm_peak = 500;
  ScheduledBuffer padded;
  padded.name = "x";
  padded.shape = "f32[64,3]{0,1:T(4,128)}";
  padded.kind = ScheduledBuffer::Kind::kArgument;
  padded.origin = {"x", "f.py", 3};
  padded.padded_bytes = 2048;
  padded.unpadded_bytes = 768;
  padded.remedy = "Pad dimension 1 from 3 to 4.";
  s.buffers = {padded, {"y", "f32[128]{0:T(128)}"}};
  s.buffers[1].padded_bytes = s.buffers[1].unpadded_bytes = 512;
  s.kernels[0].reads = {0};
  s.kernels[0].writes = {1};
  s.kernels[1].prefetch_cycles = 250;
  s.prefetches = {{0, 2, 1, Space::kVmem, 2048, 3e-7, 1e-7}};
  return s;
}

std::string Written(const Schedule& s) { return WriteReportJson(s, V5e(), {4, "2x2"}); }

llvm::json::Value ParseJson(const std::string& text) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value) {
    ADD_FAILURE() << llvm::toString(value.takeError());
    return nullptr;
  }
  return *value;
}

#define SAME(field) EXPECT_EQ(a.field, b.field)

void ExpectSame(const Origin& a, const Origin& b) {
  SAME(op_name);
  SAME(source_file);
  SAME(source_line);
}

void ExpectSame(const Schedule& x, const Schedule& y) {
  {
    const Schedule &a = x, &b = y;
    SAME(module_name);
    SAME(machine_name);
    SAME(hbm_in_use);
    SAME(hbm_capacity);
    SAME(hbm_peak);
    SAME(seconds);
    SAME(cycles);
    SAME(flops);
    SAME(transcendentals);
    SAME(hbm_bytes);
    SAME(notes);
    ASSERT_EQ(a.refusal.has_value(), b.refusal.has_value());
    if (a.refusal) {
      SAME(refusal->message);
      SAME(refusal->space);
      SAME(refusal->kernel);
      SAME(refusal->required_bytes);
      SAME(refusal->limit_bytes);
      SAME(refusal->buffers);
      SAME(refusal->remedies);
    }
  }
  ASSERT_EQ(x.prefetches.size(), y.prefetches.size());
  for (size_t i = 0; i < x.prefetches.size(); ++i) {
    const ScheduledPrefetch &a = x.prefetches[i], &b = y.prefetches[i];
    SAME(buffer);
    SAME(kernel);
    SAME(first_kernel);
    SAME(space);
    SAME(bytes);
    SAME(seconds);
    SAME(wait_seconds);
  }
  ASSERT_EQ(x.kernels.size(), y.kernels.size());
  for (size_t i = 0; i < x.kernels.size(); ++i) {
    const ScheduledKernel &a = x.kernels[i], &b = y.kernels[i];
    ExpectSame(a.origin, b.origin);
    SAME(name);
    SAME(category);
    SAME(contents);
    SAME(executions);
    SAME(loop);
    SAME(start_seconds);
    SAME(reads);
    SAME(writes);
    SAME(scoped_vmem_bytes);
    SAME(flops);
    SAME(transcendentals);
    SAME(hbm_bytes);
    SAME(prefetch_cycles);
    SAME(time.cycles);
    SAME(time.seconds);
    SAME(time.mxu_cycles);
    SAME(time.vpu_cycles);
    SAME(time.hbm_cycles);
    SAME(time.ici_cycles);
    SAME(time.bound);
    SAME(time.flops);
    SAME(time.hbm_bytes);
    SAME(time.utilisation);
    SAME(time.roofline_seconds);
    ASSERT_EQ(a.time.windows.has_value(), b.time.windows.has_value());
    if (!a.time.windows) continue;
    SAME(time.windows->rows);
    SAME(time.windows->columns);
    SAME(time.windows->inner);
    SAME(time.windows->steps);
    SAME(time.windows->vmem_bytes);
  }
  ASSERT_EQ(x.buffers.size(), y.buffers.size());
  for (size_t i = 0; i < x.buffers.size(); ++i) {
    const ScheduledBuffer &a = x.buffers[i], &b = y.buffers[i];
    ExpectSame(a.origin, b.origin);
    SAME(name);
    SAME(shape);
    SAME(kind);
    SAME(space);
    SAME(padded_bytes);
    SAME(unpadded_bytes);
    SAME(first_kernel);
    SAME(last_kernel);
    SAME(remedy);
  }
  ASSERT_EQ(x.loops.size(), y.loops.size());
  for (size_t i = 0; i < x.loops.size(); ++i) {
    const ScheduledLoop &a = x.loops[i], &b = y.loops[i];
    SAME(name);
    SAME(parent);
    SAME(trip_count);
    SAME(known);
    SAME(first_kernel);
    SAME(end_kernel);
  }
}

TEST(ReportJson, ReadsBackWhatWasWritten) {
  Schedule s = NestedLoops(24);
  s.notes = {"Nothing is known of \"power\".", "</script><b>&amp;\n\xc3\xa9 \x01"};
  s.transcendentals = 1.0 / 3;
  s.loops[0].known = false;
  s.kernels[2].loop = -1;
  s.kernels[3].executions = 0;
  s.kernels[4].time.bound = Unit::kIci;
  s.kernels[4].transcendentals = 1e-300;
  s.kernels[4].scoped_vmem_bytes = int64_t{1} << 60;
  s.kernels[5].time.windows = Windows{};
  s.buffers[1].kind = ScheduledBuffer::Kind::kConstant;
  s.buffers[1].space = Space::kCmem;
  s.buffers[1].first_kernel = 2;
  s.buffers[1].last_kernel = 5;
  s.refusal.emplace();
  s.refusal->message = "E1000: it is too large.\n\nLargest program allocations in hbm:";
  s.refusal->kernel = 3;
  s.refusal->required_bytes = int64_t{20} << 30;
  s.refusal->limit_bytes = s.hbm_capacity;
  s.refusal->buffers = {1, 0};
  s.refusal->remedies = {"Donate.", "Pad less."};
  absl::StatusOr<Schedule> back = ReadReportJson(Written(s));
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectSame(*back, s);
  EXPECT_EQ(Written(*back), Written(s));
}

TEST(ReportJson, RejectsIndicesOutOfRange) {
  Schedule s = NestedLoops(2);
  s.refusal.emplace();
  s.refusal->buffers = {2};
  EXPECT_THAT(std::string(ReadReportJson(Written(s)).status().message()), HasSubstr("refusal.buffers[0]"));
  s.refusal.reset();
  s.prefetches[0].kernel = 6;
  EXPECT_THAT(std::string(ReadReportJson(Written(s)).status().message()), HasSubstr("prefetches[0].kernel"));
}

TEST(Summary, ShowsRequiredMemoryOfARefusedProgram) {
  Schedule s = NestedLoops(2);
  EXPECT_THAT(FormatSummary(s, V5e(), {}), ::testing::Not(HasSubstr("refused")));
  s.refusal.emplace();
  s.refusal->required_bytes = int64_t{32} << 30;
  s.refusal->limit_bytes = V5e().hbm_bytes;
  EXPECT_THAT(FormatSummary(s, V5e(), {}), HasSubstr("refused 32.00G of HBM needed, 15.75G available"));
}

TEST(Trace, ShowsPrefetchesInTheHbmLane) {
  const Schedule s = NestedLoops(1);
  EXPECT_THAT(WriteTraceJson(s), HasSubstr("prefetches for later kernels"));
  EXPECT_GT(ComputeBusySeconds(s).hbm, [&] {
    Schedule without = s;
    for (ScheduledKernel& k : without.kernels) k.prefetch_cycles = 0;
    return ComputeBusySeconds(without).hbm;
  }());
}

TEST(ReportJson, RoundTripsAnEmptySchedule) {
  absl::StatusOr<Schedule> back = ReadReportJson(Written(Schedule()));
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectSame(*back, Schedule());
}

TEST(ReportJson, NumbersThatJsonLacksBecomeNull) {
  Schedule s = NestedLoops(1);
  s.flops = std::numeric_limits<double>::infinity();
  s.kernels[0].flops = std::nan("");
  const std::string text = Written(s);
  EXPECT_THAT(text, HasSubstr("\"flops\":null"));
  absl::StatusOr<Schedule> back = ReadReportJson(text);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->flops, 0);
  EXPECT_EQ(back->kernels[0].flops, 0);
}

TEST(ReportJson, ContainsMachineFiguresAndTotals) {
  const Schedule s = NestedLoops(24);
  const llvm::json::Value value = ParseJson(Written(s));
  const llvm::json::Object& o = *value.getAsObject();
  EXPECT_EQ(o.getInteger("devices"), 4);
  const llvm::json::Object& machine = *o.getObject("machine");
  EXPECT_DOUBLE_EQ(*machine.getNumber("matrix_flops_per_second"), V5e().PeakBf16Flops());
  EXPECT_DOUBLE_EQ(*machine.getNumber("hbm_bytes_per_second"), 819e9);
  EXPECT_DOUBLE_EQ(*machine.getNumber("vector_flops_per_second"), 4 * 1024 * 1.5e9);
  const UnitSeconds bound = SumSecondsByBound(s), busy = ComputeBusySeconds(s);
  EXPECT_NEAR(bound.Sum(), s.seconds, 1e-12);
  EXPECT_GT(busy.mxu, 0);
  EXPECT_GT(busy.hbm, 0);
  EXPECT_EQ(busy.ici, 0);
  EXPECT_DOUBLE_EQ(*o.getObject("totals")->getObject("busy_seconds")->getNumber("mxu"), busy.mxu);
}

TEST(ReportJson, RejectsOtherDocuments) {
  const std::string good = Written(NestedLoops(2));
  auto refused = [](const std::string& text, const std::string& words) {
    const absl::StatusOr<Schedule> read = ReadReportJson(text);
    ASSERT_FALSE(read.ok()) << words;
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(words));
  };
  auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  };
  refused("{", "not JSON");
  refused("[]", "\"format\" is not");
  refused(with("backplane.tpu_report", "other"), "\"format\" is not");
  refused(with("\"version\":1", "\"version\":2"), "\"version\" is not 1");
  refused(with("\"name\":\"first\"", "\"name\":3"), "kernels[0].name: must be a string");
  refused(with("\"reads\":[0]", "\"reads\":[2]"), "kernels[0].reads[0]: index out of range: 2");
  refused(with("\"reads\":[0]", "\"reads\":[-1]"), "index out of range");
  refused(with("\"loop\":0", "\"loop\":2"), "kernels[1].loop: index out of range: 2");
  refused(with("\"bound\":\"", "\"bound\":\"x"), "unknown");
  refused(with("\"parent\":0", "\"parent\":1"), "loops[1].parent: index out of range: 1");
  refused(with("\"end_kernel\":5", "\"end_kernel\":8"), "loops[0].end_kernel");
  refused(with("\"kernels\":[", "\"kernels\":[7,"), "kernels[0]: must be an object");
  refused(with("\"in_use\":[100", "\"in_use\":[\"a\""), "hbm.in_use[0]: must be a whole number");
  refused(with("\"notes\":[", "\"notes\":[{}"), "notes[0]: must be a string");
}

TEST(Timeline, LoopsContainOneIteration) {
  const Schedule s = NestedLoops(24);
  const std::vector<TimelineItem> items = BuildTimeline(s);
  ASSERT_EQ(items.size(), 3u);
  EXPECT_EQ(items[0].kernel, 0);
  EXPECT_EQ(items[1].loop, 0);
  EXPECT_EQ(items[1].trip_count, 24);
  ASSERT_EQ(items[1].body.size(), 3u);
  EXPECT_EQ(items[1].body[1].loop, 1);
  EXPECT_EQ(items[1].body[1].body.size(), 2u);
  EXPECT_NEAR(items[1].start_seconds + items[1].TotalSeconds(), s.kernels[5].start_seconds, 1e-12);
}

TEST(Timeline, DropsLoopsThatAreNotNested) {
  Schedule s = NestedLoops(2);
  s.loops[1].end_kernel = 6;  // ends after the enclosing loop
  s.loops.push_back({"empty", -1, 9, true, 3, 3});
  const std::vector<TimelineItem> items = BuildTimeline(s);
  ASSERT_EQ(items.size(), 3u);
  EXPECT_EQ(items[1].body.size(), 4u);
}

struct Event {
  std::string name;
  double begin, end;
};

// By thread, in the order written; and the names of threads.
std::map<int64_t, std::vector<Event>> Lanes(const std::string& text, std::map<int64_t, std::string>* names,
                                            std::vector<std::pair<double, int64_t>>* counters = nullptr) {
  std::map<int64_t, std::vector<Event>> lanes;
  const llvm::json::Value value = ParseJson(text);
  if (value.getAsObject() == nullptr) return lanes;
  for (const llvm::json::Value& v : *value.getAsObject()->getArray("traceEvents")) {
    const llvm::json::Object& e = *v.getAsObject();
    const llvm::StringRef phase = *e.getString("ph");
    if (phase == "X") {
      const double begin = *e.getNumber("ts");
      lanes[*e.getInteger("tid")].push_back({e.getString("name")->str(), begin, begin + *e.getNumber("dur")});
    } else if (phase == "M" && *e.getString("name") == "thread_name") {
      (*names)[*e.getInteger("tid")] = e.getObject("args")->getString("name")->str();
    } else if (phase == "C" && counters != nullptr) {
      counters->emplace_back(*e.getNumber("ts"), *e.getObject("args")->getInteger("bytes"));
    }
  }
  return lanes;
}

// Slices of a lane follow one another or nest.
void ExpectNested(std::vector<Event> events, const std::string& lane) {
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<Event> open;
  for (const Event& e : events) {
    while (!open.empty() && open.back().end <= e.begin + 1e-6) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(e.end, open.back().end + 1e-6) << lane << ": " << e.name << " crosses " << open.back().name;
    }
    open.push_back(e);
  }
}

TEST(Trace, UnrolledLoopsShowEveryExecution) {
  const Schedule s = NestedLoops(24);
  std::map<int64_t, std::string> names;
  std::vector<std::pair<double, int64_t>> counters;
  const auto lanes = Lanes(WriteTraceJson(s), &names, &counters);
  std::map<std::string, std::map<std::string, int64_t>> count;
  double busy = 0;
  for (const auto& [thread, events] : lanes) {
    ExpectNested(events, names[thread]);
    for (const Event& e : events) {
      ++count[names[thread]][e.name];
      if (names[thread] == "kernels") busy += e.end - e.begin;
    }
  }
  for (const ScheduledKernel& k : s.kernels) {
    EXPECT_EQ(count["kernels"][k.name], k.executions) << k.name;
    EXPECT_EQ(count["HBM"][k.name], k.executions) << k.name;
    EXPECT_EQ(count["MXU"][k.name], k.category == "matmul" ? k.executions : 0) << k.name;
  }
  EXPECT_EQ(count["ICI"].size(), 0u);
  EXPECT_EQ(count["loops"]["while.1"], 1);
  EXPECT_EQ(count["loops 3"]["while.2"], 24);
  EXPECT_EQ(count["loops 4"]["iteration 3"], 24);
  EXPECT_EQ(count.count("kernels 2"), 0u);  // no slice was moved to another lane by a rounding error
  EXPECT_NEAR(busy, s.seconds * 1e6, 0.001 * 200);
  ASSERT_FALSE(counters.empty());
  EXPECT_EQ(counters.front().second, 100);
  EXPECT_EQ(counters.back().second, 0);
  EXPECT_NEAR(counters.back().first, s.seconds * 1e6, 0.01);
  for (size_t i = 1; i < counters.size(); ++i) EXPECT_GE(counters[i].first, counters[i - 1].first);
}

TEST(Trace, StaysWithinTheBound) {
  const Schedule s = NestedLoops(1'000'000);
  const std::string text = WriteTraceJson(s, 200);
  std::map<int64_t, std::string> names;
  const auto lanes = Lanes(text, &names);
  std::map<std::string, int64_t> count;
  size_t all = 0;
  double end = 0;
  for (const auto& [thread, events] : lanes) {
    ExpectNested(events, names[thread]);
    all += events.size();
    for (const Event& e : events) ++count[names[thread] + "/" + e.name], end = std::max(end, e.end);
  }
  EXPECT_LE(all, 200u);
  EXPECT_EQ(count["kernels/product"], 1);
  EXPECT_EQ(count["kernels/sum"], 3);  // the inner loop fits
  EXPECT_EQ(count["loops 2/999999 more iterations"], 1);
  EXPECT_NEAR(end, s.seconds * 1e6, 1e-3 * s.seconds * 1e6);
  EXPECT_LT(WriteTraceJson(s).size(), 60u << 20);
}

TEST(Trace, ConcurrentKernelsUseSeparateLanes) {
  Schedule s = NestedLoops(1);
  s.loops.clear();
  for (ScheduledKernel& k : s.kernels) k.start_seconds = 0;
  std::map<int64_t, std::string> names;
  const auto lanes = Lanes(WriteTraceJson(s), &names);
  std::set<std::string> kernel_lanes;
  for (const auto& [thread, events] : lanes) {
    if (absl::StartsWith(names[thread], "kernels")) kernel_lanes.insert(names[thread]);
    ExpectNested(events, names[thread]);
  }
  EXPECT_EQ(kernel_lanes.size(), 6u);
}

TEST(Summary, ShowsTimeAndMemory) {
  const Schedule s = NestedLoops(24);
  const std::string text = FormatSummary(s, V5e(), {4, "2x2"});
  EXPECT_THAT(text, HasSubstr("jit_f on v5e, one of 4 devices\n"));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("time    ", FormatSeconds(s.seconds), " in 6 kernels")));
  EXPECT_THAT(text, HasSubstr("500B peak of 15.75G"));
  EXPECT_THAT(text,
              HasSubstr("50.0 % of all arrays' bytes; worst: x f32[64,3]{0,1:T(4,128)} takes 2.0K for 768B, f.py:3"));
  EXPECT_THAT(text, HasSubstr("Pad dimension 1 from 3 to 4."));
  // The kernel with the most total time comes first.
  EXPECT_LT(text.find("sum (elementwise"), text.find("tail (elementwise"));
  EXPECT_THAT(text, HasSubstr("x 72"));
  Schedule unknown = s;
  unknown.loops[0].known = false;
  EXPECT_THAT(FormatSummary(unknown, V5e(), {}), HasSubstr("at least "));
  EXPECT_THAT(FormatSummary(Schedule(), V5e(), {}), HasSubstr("in 0 kernels\n"));
}

TEST(Summary, TimesHaveThreeDigits) {
  EXPECT_EQ(FormatSeconds(1.5), "1.5 s");
  EXPECT_EQ(FormatSeconds(0.0123456), "12.3 ms");
  EXPECT_EQ(FormatSeconds(0.9996e-3), "1 ms");
  EXPECT_EQ(FormatSeconds(2.5e-7), "250 ns");
  EXPECT_EQ(FormatSeconds(0), "0 ns");
}

class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "tpu_report.XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  void TearDown() override { fs::remove_all(path_); }
  std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  fs::path path_;
};

TEST_F(Folder, HasThreeFilesPerProgram) {
  const std::string folder = (path_ / "a/b").string();
  ASSERT_TRUE(CheckReportFolder(folder).ok());
  EXPECT_TRUE(fs::is_empty(folder));
  Schedule s = NestedLoops(3);
  s.module_name = "jit(a/b) c";
  absl::StatusOr<ReportFiles> files = WriteReport(folder, s, V5e(), {4, "2x2"});
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_TRUE(absl::EndsWith(files->json, "_jit_a_b__c.json")) << files->json;
  absl::StatusOr<Schedule> back = ReadReportJson(Read(files->json));
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectSame(*back, s);
  EXPECT_EQ(Read(files->trace), WriteTraceJson(s));
  EXPECT_THAT(Read(files->html), HasSubstr("while.2"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 3);
}

TEST_F(Folder, CountsRuns) {
  const Schedule s = NestedLoops(3);
  absl::StatusOr<ReportFiles> files = WriteReport(path_.string(), s, V5e(), {});
  ASSERT_TRUE(files.ok()) << files.status();
  const std::string before = Read(files->json);
  { RunCounter none(*files); }
  EXPECT_EQ(Read(files->json), before);
  {
    RunCounter runs(*files);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 250; ++i) runs.Add();
      });
    }
    for (std::thread& t : threads) t.join();
  }
  const std::string after = Read(files->json);
  EXPECT_EQ(ParseJson(after).getAsObject()->getInteger("runs"), 1000);
  absl::StatusOr<Schedule> back = ReadReportJson(after);
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectSame(*back, s);
  EXPECT_THAT(Read(files->html), HasSubstr("\"runs\":1000}"));
  {
    RunCounter runs(*files);
    runs.Add();
    fs::remove(files->json);
  }
  EXPECT_FALSE(fs::exists(files->json));
}

TEST_F(Folder, UnwritableFolderIsAnError) {
  std::ofstream(path_ / "file") << "x";
  for (const fs::path& folder : {path_ / "file", path_ / "file/below"}) {
    const absl::Status status = CheckReportFolder(folder.string());
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder.string()));
    EXPECT_FALSE(WriteReport(folder.string(), NestedLoops(1), V5e(), {}).ok());
  }
}

TEST_F(Folder, SupportsConcurrentThreadsAndProcesses) {
  constexpr int kEach = 10;
  const Schedule s = NestedLoops(2);
  auto work = [&] {
    int failed = 0;
    for (int i = 0; i < kEach; ++i) failed += !WriteReport(path_.string(), s, V5e(), {}).ok();
    return failed;
  };
  std::vector<pid_t> children;
  for (int c = 0; c < 3; ++c) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(work());
    children.push_back(child);
  }
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { failed += work(); });
  for (std::thread& t : threads) t.join();
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(failed, 0);
  int64_t documents = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    if (!absl::EndsWith(name, ".json") || absl::EndsWith(name, ".trace.json")) continue;
    EXPECT_TRUE(ReadReportJson(Read(entry.path().string())).ok()) << name;
    ++documents;
  }
  EXPECT_EQ(documents, 7 * kEach);
}

}  // namespace
}  // namespace backplane::tpu
