#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/text/attribute_text.h"
#include "core/text/hlo_parser.h"
#include "core/text/hlo_printer.h"
#include "core/text/mesh_groups.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Module> Parsed(absl::string_view text) {
  absl::StatusOr<std::unique_ptr<Module>> m = ParseHloModule(text);
  EXPECT_TRUE(m.ok()) << m.status() << "\n" << text;
  return m.ok() ? *std::move(m) : nullptr;
}

// Parsing and printing the output of PrintModule must reproduce the text and the program.
void ExpectRoundTrip(const Module& m) {
  const std::string text = m.ToString();
  std::unique_ptr<Module> again = Parsed(text);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->ToString(), text);
  EXPECT_EQ(again->Fingerprint(), m.Fingerprint());
}

std::string Entry(absl::string_view body) { return absl::StrCat("HloModule m\n\nENTRY %main {\n", body, "\n}\n"); }

// Returns the root of the entry as the printer spells it.
std::string Root(absl::string_view text) {
  std::unique_ptr<Module> m = Parsed(text);
  if (m == nullptr) return "";
  ExpectRoundTrip(*m);
  return m->entry()->root()->ToString();
}

constexpr char kAdd[] = R"(HloModule m

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

)";

struct XlaText {
  std::string name, text;
};

std::vector<XlaText> XlaTexts() {
  std::vector<XlaText> all;
  for (const auto& file : std::filesystem::directory_iterator(BACKPLANE_SOURCE_DIR "/core/text/testdata")) {
    std::ifstream in(file.path());
    std::stringstream text;
    text << in.rdbuf();
    all.push_back({file.path().filename().string(), text.str()});
  }
  std::sort(all.begin(), all.end(), [](const XlaText& a, const XlaText& b) { return a.name < b.name; });
  return all;
}

TEST(HloText, ReadsWhatXlaPrints) {
  const std::vector<XlaText> texts = XlaTexts();
  ASSERT_GE(texts.size(), 50u);
  for (const XlaText& t : texts) {
    SCOPED_TRACE(t.name);
    absl::StatusOr<std::unique_ptr<Module>> m = ParseHloModule(t.text);
    ASSERT_TRUE(m.ok()) << m.status();
    ExpectRoundTrip(**m);
    // The number of instructions must equal the number of lines that define one.
    int64_t lines = 0, instructions = 0;
    std::istringstream stream(t.text);
    for (std::string line; std::getline(stream, line);)
      lines += absl::StartsWith(line, "  ") && absl::StrContains(line, " = ");
    for (const auto& c : (*m)->computations()) instructions += c->instruction_count();
    EXPECT_EQ(instructions, lines);
  }
}

std::string OneBlank(absl::string_view text) {
  std::vector<std::string> words = absl::StrSplit(std::string(text), absl::ByAnyChar(" \n\t"), absl::SkipEmpty());
  return absl::StrJoin(words, " ");
}

// Apart from white space, XLA's output must be reproduced: compiled programs in long form, others in short form.
TEST(HloText, PrintsWhatXlaPrints) {
  for (const XlaText& t : XlaTexts()) {
    SCOPED_TRACE(t.name);
    std::unique_ptr<Module> m = Parsed(t.text);
    ASSERT_NE(m, nullptr);
    const bool compiled = absl::EndsWith(t.name, "_opt.hlo");
    EXPECT_EQ(OneBlank(compiled ? PrintModule(*m) : PrintModule(*m, MakeShortPrintOptions())), OneBlank(t.text));
  }
}

// All forms of instructions, as XLA prints them.
TEST(HloText, PrintsEveryFormAsXlaDoes) {
  const std::string text =
      R"(HloModule m, is_scheduled=true, alias_passthrough_params=true, input_output_alias={ {}: (1, {}, may-alias) }, buffer_donor={ (0, {}) }, entry_computation_layout={(f32[8,4]{1,0:T(8,128)(2,1)E(16)S(5)}, f32[<=8,4]{1,0})->f32[8,4]{1,0}}, allow_spmd_sharding_propagation_to_parameters={true,false}, allow_spmd_sharding_propagation_to_output={true}, replica_count=2, num_partitions=8, frontend_attributes={a="b",c={x = "y"}}

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

%comp (a1: f32[], b1: f32[]) -> f32[] {
  %a1 = f32[] parameter(0)
  %b1 = f32[] parameter(1)
  ROOT %ss = f32[] add(%a1, %b1)
}

%two (w: f32[8,4]) -> f32[8,4] {
  %w = f32[8,4]{1,0} parameter(0)
  %w.1 = f32[8,4]{1,0} negate(%w)
  ROOT %w.2 = f32[8,4]{1,0} sine(%w.1)
}, execution_thread="host"

ENTRY %e (p: f32[8,4], dyn: f32[<=8,4]) -> f32[8,4] {
  %p = f32[8,4]{1,0:T(8,128)(2,1)E(16)S(5)} parameter(0), parameter_replication={true}, sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate metadata={op_name="x"}}
  %q = f32[8,4]{1,0} negate(%p), sharding={replicated shard_as 3}, frontend_attributes={a="b"}, statistics={visualizing_index=0,stat-0=3.5}, origin={{"a" {0}}}, metadata={op_name="n" source_file="f" source_line=3 source_end_line=33 source_column=44 source_end_column=55 profile_type={1} deduplicated_name="dd" scheduling_name="sn"}
  %r = f32[8,4]{1,0} all-reduce(%q), channel_id=1, replica_groups=[2,4]<=[8], use_global_device_ids=true, to_apply=%add
  %rm = f32[8,4]{1,0} all-reduce(%r), channel_id=1, replica_groups=mesh['a'=2,'b'=4] {'a'}, use_global_device_ids=true, to_apply=%add
  %s.1 = f32[8,4]{1,0} sine(%rm), sharding={devices=[2,1,2,2]<=[2,2,2]T(1,0,2) last_tile_dims={manual, replicated}}
  %n = f32[8,4]{1,0} negate(%s.1), sharding={mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)), [{'a'}, {'b':(1)2, ?}], replicated={'b':(2)2}, metadata={{op_name="X"}}}
  %t = ((f32[8,4]{1,0}), f32[8,4]{1,0}, u32[]) custom-call-start(%n), async_execution_thread="host", custom_call_target="foo"
  %u = ((f32[8,4]{1,0}), f32[8,4]{1,0}, u32[]) custom-call-update(%t)
  %v = f32[8,4]{1,0} custom-call-done(%u)
  %t2 = ((f32[8,4]{1,0}), f32[8,4]{1,0}, u32[]) async-start(%v), async_execution_thread="host", calls=%two
  %v2 = f32[8,4]{1,0} async-done(%t2)
  %w.3 = f32[8,4]{1,0} cosine(%v2), sharding={unreduced}, control-predecessors={%s.1}, result_accuracy={mode=highest}, backend_config={"a":1}
  %x = f32[8,4]{1,0} tan(%w.3), result_accuracy={tolerance={atol=0.001,rtol=0.5,ulps=2}}, backend_config="foo"
  %y = f32[8,4]{1,0} custom-call(%x), custom_call_target="tt", operand_layout_constraints={f32[8,4]{1,0}}, custom_call_has_side_effect=true, output_to_operand_aliasing={{}: (0, {})}, schedule=SCHEDULE_LATEST, api_version=API_VERSION_STATUS_RETURNING
  %c = f32[] constant(1.1)
  %d = f32[] call(%c, %c), to_apply=%comp, is_composite=true, frontend_attributes={composite.attributes={a = 1 : i32},composite.name="a.b",composite.version="1"}
  %cc = c64[2]{0} constant({(0.1, 0.2), (1e+10, nan)})
  %hh = f16[3]{0} constant({0.099976, 65504, -inf})
  %g = f8e4m3fn[3]{0} constant({0.102, 448, nan})
  %i = f8e5m2[2]{0} constant({0.31, -inf})
  %nn = f32[3]{0} constant({nan, -nan, 9.99995e-41})
  %z9 = f32[5]{0} constant({16777216, 1e+20, 123456792, 0.333333343, 1e+06})
  %d9 = f64[5]{0} constant({16777216, 1e+20, 1.2345678901234568e+17, 0.1, 1e-05})
  %pr = pred[2,2]{1,0} constant({ { 1, 0 }, { 0, 1 } })
  %dyn = f32[<=8,4]{1,0} parameter(1)
  %sz = s32[] get-dimension-size(%dyn), dimensions={0}
  %sl = f32[2,4]{1,0} slice(%p), slice={[0:4:2], [0:4:1]}
  %pd = f32[10,10]{1,0} pad(%p, %c), padding=1_1_0x-1_1_2
  ROOT %z = f32[8,4]{1,0} copy(%y), sharding={manual}
}
)";
  std::unique_ptr<Module> m = Parsed(text);
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(OneBlank(m->ToString()), OneBlank(text));
  ExpectRoundTrip(*m);
}

TEST(HloText, ShardingsByMeshAxesAreExpanded) {
  const struct {
    const char *text, *means;
  } cases[] = {
      {"{mesh['a'=2,'b'=4], [{'a'}, {'b'}]}", "{devices=[2,4]0,1,2,3,4,5,6,7}"},
      {"{mesh['a'=2,'b'=4], [{'b'}, {'a'}]}", "{devices=[4,2]0,4,1,5,2,6,3,7}"},
      {"{mesh['a'=2,'b'=4], [{'a'}, {}]}", "{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}"},
      {"{mesh['a'=2,'b'=4], [{}, {'b'}], manual={'a'}}", "{devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dims={manual}}"},
      {"{mesh['b'=4], [{'b':(1)2}]}", "{devices=[2,2]0,1,2,3 last_tile_dim_replicate}"},
      {"{mesh['b'=4], [{'b':(2)2}]}", "{devices=[2,2]0,2,1,3 last_tile_dim_replicate}"},
      {"{mesh['a'=2,'b'=2], device_ids=(3,2,1,0), [{'a','b'}]}", "{devices=[4]3,2,1,0}"},
      {"{mesh['a'=2], [{}, {}]}", "{replicated}"},
      {"{mesh['a'=2], [{}, {}], manual={'a'}}", "{manual}"},
  };
  for (const auto& c : cases) {
    absl::StatusOr<Sharding> s = ParseSharding(c.text);
    ASSERT_TRUE(s.ok()) << c.text << s.status();
    EXPECT_EQ(s->ToString(), c.text);
    s->mesh.clear();
    EXPECT_EQ(s->ToString(), c.means) << c.text;
  }
  for (const char* bad : {"{mesh['a'=2], [{'b'}]}", "{mesh['a'=0], [{'a'}]}", "{mesh['a'=4], [{'a':(3)2}]}",
                          "{mesh['a'=4], [{'a','a'}]}", "{mesh['a'=2], device_ids=(1), [{'a'}]}", "{mesh['a'=2]}"}) {
    EXPECT_FALSE(ParseSharding(bad).ok()) << bad;
  }
}

// Every instruction has its own, so a list of a million devices would take a gigabyte in a hundred of them.
TEST(HloText, LargeMeshesAreKeptInIotaForm) {
  absl::StatusOr<Sharding> s = ParseSharding("{mesh['a'=8,'b'=16,'c'=2], [{'c'}, {'a'}]}");
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_TRUE(s->devices.empty());
  ASSERT_TRUE(s->iota.has_value());
  // Tile (c, a), replicated over b: device a * 32 + b * 2 + c.
  const Ints devices = s->DeviceList();
  ASSERT_EQ(devices.size(), 256u);
  for (int64_t c = 0; c < 2; ++c) {
    for (int64_t a = 0; a < 8; ++a) {
      for (int64_t b = 0; b < 16; ++b)
        EXPECT_EQ(devices[static_cast<size_t>((c * 8 + a) * 16 + b)], a * 32 + b * 2 + c);
    }
  }
  s->mesh.clear();
  EXPECT_EQ(s->ToString(), "{devices=[2,8,16]<=[8,16,2]T(2,0,1) last_tile_dim_replicate}");

  absl::StatusOr<ReplicaGroups> groups = ComputeReplicaGroupsOfMesh({8, 16, 2}, {}, {{1}, {0, 2, 2}});
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_TRUE(groups->groups.empty());
  // Groups of (b, the middle of a), in the order of (the outer of a, the inner of a, c).
  const std::vector<Ints> lists = groups->Expand();
  ASSERT_EQ(lists.size(), 8u);
  for (int64_t g = 0; g < 8; ++g) {
    ASSERT_EQ(lists[g].size(), 32u);
    for (int64_t k = 0; k < 32; ++k) {
      EXPECT_EQ(lists[g][k], (g / 4 * 4 + k % 2 * 2 + g / 2 % 2) * 32 + k / 2 * 2 + g % 2) << g << " " << k;
    }
  }
  EXPECT_TRUE(ComputeReplicaGroupsOfMesh({1 << 20}, {}, {{0}})->iota.has_value());
  Ints given(256);
  std::iota(given.begin(), given.end(), 0);
  EXPECT_EQ(*ComputeReplicaGroupsOfMesh({8, 16, 2}, given, {{1}, {0, 2, 2}}), *groups);
  std::swap(given[0], given[1]);
  EXPECT_EQ(ComputeReplicaGroupsOfMesh({256}, given, {{0}})->groups, std::vector<Ints>{given});
  // Transposed devices have an iota form as well, unless the axes of the mesh and those of the device ids mix.
  const std::string transposed = "mesh['a'=16,'b'=8,'c'=2], device_ids=([16,16]T(1,0)) {'b'}";
  HloLexer short_lexer(transposed);
  groups = ParseReplicaGroups(short_lexer);
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_TRUE(groups->groups.empty());
  const std::vector<Ints> by_b = groups->Expand();
  ASSERT_EQ(by_b.size(), 32u);
  for (int64_t g = 0; g < 32; ++g) {
    for (int64_t k = 0; k < 8; ++k) {
      const int64_t place = g / 2 * 16 + k * 2 + g % 2;
      EXPECT_EQ(by_b[g][k], place % 16 * 16 + place / 16) << g << " " << k;
    }
  }
  s = ParseSharding("{mesh['a'=16,'b'=8,'c'=2], device_ids=([16,16]T(1,0)), [{'b'}, {'a'}]}");
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_TRUE(s->iota.has_value());
  for (int64_t n = 0; n < 256; ++n) {
    const int64_t place = n / 2 % 16 * 16 + n / 32 * 2 + n % 2;
    EXPECT_EQ(s->DeviceList()[static_cast<size_t>(n)], place % 16 * 16 + place / 16) << n;
  }
  for (const int64_t scale : {1, 8}) {
    const std::string mixed =
        absl::StrCat("mesh['a'=", 16 * scale, ",'b'=24], device_ids=([", 16 * scale / 2, ",48]T(1,0))");
    const std::string mixed_groups = mixed + " {'a'}";
    HloLexer mixed_lexer(mixed_groups);
    groups = ParseReplicaGroups(mixed_lexer);
    EXPECT_EQ(groups.ok(), scale == 1);
    if (scale > 1) {
      EXPECT_THAT(groups.status().message(), HasSubstr("without an iota form, at most 1024"));
    }
    EXPECT_EQ(ParseSharding(absl::StrCat("{", mixed, ", [{'b'}]}")).ok(), scale == 1);
  }
  // There may not be as many as in order.
  EXPECT_TRUE(ParseSharding("{mesh['a'=4096], device_ids=([64,64]T(1,0)), [{'a'}]}").ok());
  EXPECT_FALSE(ParseSharding("{mesh['a'=65536], device_ids=([256,256]T(1,0)), [{'a'}]}").ok());
  HloLexer lexer("mesh['a'=65536], device_ids=([256,256]T(1,0)) {'a'}");
  EXPECT_FALSE(ParseReplicaGroups(lexer).ok());
}

// Each of many instructions has the groups of a large mesh.
TEST(HloText, GroupsOfTransposedMeshesAreShort) {
  std::string program =
      "HloModule m, replica_count=16384\n%add (a: f32[], b: f32[]) -> f32[] {\n%a = f32[] parameter(0)\n"
      "%b = f32[] parameter(1)\nROOT %s = f32[] add(%a, %b)\n}\nENTRY %e {\n%x0 = f32[4] parameter(0)\n";
  for (int i = 1; i <= 200; ++i) {
    absl::StrAppend(&program, i == 200 ? "ROOT " : "", "%x", i, " = f32[4] all-reduce(%x", i - 1,
                    "), to_apply=%add, replica_groups=mesh['a'=128,'b'=128], device_ids=([128,128]T(1,0)) {'b'}\n");
  }
  std::unique_ptr<Module> m = Parsed(program + "}\n");
  ASSERT_NE(m, nullptr);
  const auto& groups = m->entry()->root()->attrs().Get<ReplicaGroups>(AttrId::kReplicaGroups);
  EXPECT_TRUE(groups.groups.empty());
  EXPECT_EQ(groups.iota, (IotaDevices{{128, 128}, {128, 128}, {1, 0}}));
}

TEST(HloText, LongNamesOfFilesAreCut) {
  std::unique_ptr<Module> m = Parsed(absl::StrCat("HloModule m\n\nFileNames\n1 \"", std::string(5000, 'f'),
                                                  "\"\n\nFileLocations\n1 {file_name_id=1 line=7}\n\nStackFrames\n1 "
                                                  "{file_location_id=1}\n\nENTRY %main {\n  ROOT %p = f32[] "
                                                  "parameter(0), metadata={stack_frame_id=1}\n}\n"));
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->entry()->root()->metadata().source_file, std::string(2048, 'f'));
}

TEST(HloText, StackFramesBecomeSourceLines) {
  std::unique_ptr<Module> m = Parsed(R"(HloModule m, is_scheduled=true

FileNames
1 "a.py"
2 "b.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=2 function_name_id=1 line=77 end_line=77 column=0 end_column=63}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY %main {
  ROOT %p = f32[] parameter(0), metadata={op_type="t" op_name="jit(f)/x" stack_frame_id=1 profile_type={1} preserve_layout=true}
})");
  ASSERT_NE(m, nullptr);
  const OpMetadata& d = m->entry()->root()->metadata();
  EXPECT_EQ(d.op_type, "t");
  EXPECT_EQ(d.source_file, "b.py");
  EXPECT_EQ(d.source_line, 77);
  EXPECT_EQ(d.stack_frame_id, 1);
  EXPECT_THAT(m->ToString(), HasSubstr("metadata={op_type=\"t\" op_name=\"jit(f)/x\" profile_type={1} "
                                       "preserve_layout=true stack_frame_id=1}"));
  EXPECT_THAT(m->ToString(), HasSubstr("StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n"));
  ExpectRoundTrip(*m);
  // Without the tables file and line are printed at the instruction.
  HloPrintOptions plain;
  plain.annotations = false;
  EXPECT_THAT(PrintModule(*m, plain),
              HasSubstr("op_name=\"jit(f)/x\" source_file=\"b.py\" source_line=77 profile_type"));
}

TEST(HloText, HeaderRoundTrips) {
  std::unique_ptr<Module> m = Parsed(
      R"(HloModule jit_f.3, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias), {1,0}: (1, {2}, must-alias) },
      buffer_donor={ (0, {}), (1, {2}) }, entry_computation_layout={(f32[2,3]{0,1}, (f32[], f32[], f32[]))->(f32[2,3]{1,0}, (f32[]))},
      allow_spmd_sharding_propagation_to_output={true,false}, replica_count=2, num_partitions=4,
      frontend_attributes={a="x\"y", mesh={m = #sdy.mesh<["a"=4]>}, backplane.use_spmd_partitioning="true", backplane.parameter_memory_kinds=",pinned_host"}

ENTRY %main {
  %p = f32[2,3]{0,1} parameter(0)
  %q = (f32[], f32[], f32[]) parameter(1)
  %g = f32[] get-tuple-element(%q), index=2
  %t = (f32[]) tuple(%g)
  %c = f32[2,3]{1,0} copy(%p)
  ROOT %r = (f32[2,3]{1,0}, (f32[])) tuple(%c, %t)
})");
  ASSERT_NE(m, nullptr);
  const ModuleConfig& c = m->config();
  EXPECT_EQ(m->name(), "jit_f.3");
  EXPECT_EQ(c.num_replicas, 2);
  EXPECT_EQ(c.num_partitions, 4);
  EXPECT_TRUE(c.use_spmd_partitioning);
  EXPECT_FALSE(c.use_shardy_partitioner);
  EXPECT_THAT(c.parameter_memory_kinds, ElementsAre("", "pinned_host"));
  EXPECT_THAT(c.input_output_aliases,
              ElementsAre(InputOutputAlias{{0}, 0, {}, false}, InputOutputAlias{{1, 0}, 1, {2}, true}));
  EXPECT_EQ(c.buffer_donors.size(), 2u);
  EXPECT_EQ(c.parameter_layouts[0].ToString(true), "f32[2,3]{0,1}");
  EXPECT_EQ(c.frontend_attributes.at("mesh"), "{m = #sdy.mesh<[\"a\"=4]>}");
  EXPECT_EQ(c.frontend_attributes.at("a"), "x\"y");
  EXPECT_EQ(c.frontend_attributes.size(), 2u);
  ExpectRoundTrip(*m);
}

TEST(HloText, InstructionsKeepTheirSpelling) {
  const struct {
    const char* body;
    const char* root;
  } cases[] = {
      {"%p = f32[4]{0} parameter(0)\n ROOT %r = f32[4]{0:T(128)S(5)} copy(%p)", "%r = f32[4]{0:T(128)S(5)} copy(%p)"},
      {"p = f32[4] parameter(0)\n ROOT r = add(p, p)", "%r = f32[4] add(%p, %p)"},
      {"%p = f32[4] parameter(0)\n ROOT %r = f32[4] add(f32[4] %p, f32[4]{0} %p), metadata={op_name=\"x\"}",
       "%r = f32[4] add(%p, %p), metadata={op_name=\"x\"}"},
      {"ROOT %c = f32[2,2] constant({ { 1, nan }, { -inf, -nan(0x1) } })",
       "%c = f32[2,2] constant({ { 1, nan }, { -inf, -nan(0x1) } })"},
      {"ROOT %c = c64[2] constant({(1, 2), (-inf, nan)})", "%c = c64[2] constant({(1, 2), (-inf, nan)})"},
      {"ROOT %c = (s32[], (pred[2])) constant(( 5, ( {1, 0} ) ))",
       "%c = (s32[], (pred[2])) constant(( 5, ( {1, 0} ) ))"},
      {"ROOT %c = s4[3]{0:E(4)} constant({-8, 0x7, 1})", "%c = s4[3]{0:E(4)} constant({-8, 7, 1})"},
      {"ROOT %c = f32[0,3] constant({})", "%c = f32[0,3] constant({  })"},
      {"ROOT %c = f32[2,0] constant({ {}, {} })", "%c = f32[2,0] constant({ {  }, {  } })"},
      {"%p = f32[8] parameter(0)\n %i = s32[] constant(1)\n ROOT %r = f32[3] dynamic-slice(%p, %i), "
       "dynamic_slice_sizes={3}",
       "%r = f32[3] dynamic-slice(%p, %i), dynamic_slice_sizes={3}"},
      {"%p = f32[8] parameter(0)\n ROOT %r = f32[2] slice(%p), slice={[1:7:3]}",
       "%r = f32[2] slice(%p), slice={[1:7:3]}"},
      {"%p = f32[4] parameter(0)\n %z = f32[] constant(0)\n ROOT %r = f32[10] pad(%p, %z), padding=1_-1_2", nullptr},
      {"%p = f32[] parameter(0)\n %z = f32[] constant(0)\n ROOT %r = f32[] pad(%p, %z), padding=, "
       "frontend_attributes={k=\"v\"}",
       "%r = f32[] pad(%p, %z), padding=, frontend_attributes={k=\"v\"}"},
      {"%p = f32[2,3] parameter(0)\n %q = f32[3,2] parameter(1)\n ROOT %r = f32[2,2] dot(%p, %q), "
       "lhs_contracting_dims={1}, "
       "rhs_contracting_dims={0}, operand_precision={high,default}, algorithm=dot_tf32_tf32_f32_x3",
       "%r = f32[2,2] dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
       "operand_precision={high,default}, "
       "algorithm=dot_tf32_tf32_f32_x3"},
      {"%p = f32[2] parameter(0)\n ROOT %r = pred[2] compare(%p, %p), direction=LT, type=TOTALORDER",
       "%r = pred[2] compare(%p, %p), direction=LT, type=TOTALORDER"},
      {"%p = f32[2] parameter(0), sharding={devices=[2]<=[2]}\n %q = f32[2] negate(%p), "
       "backend_config={\"a\":{\"b\":[1]}}\n ROOT %r = f32[2] sine(%q), "
       "frontend_attributes={k=\"v\"}, control-predecessors={%p, %q}, result_accuracy={tolerance={atol=0.5, rtol=0, "
       "ulps=2}}, backend_config=\"x\\\"\"",
       "%r = f32[2] sine(%q), frontend_attributes={k=\"v\"}, control-predecessors={%p, %q}, "
       "result_accuracy={tolerance={atol=0.5,rtol=0,ulps=2}}, backend_config=\"x\\\"\""},
      {"%p = f32[2] parameter(0)\n ROOT %r = f32[2] custom-call(%p), custom_call_target=\"t\", "
       "operand_layout_constraints={f32[2]{0}}, "
       "custom_call_has_side_effect=true, output_to_operand_aliasing={{}: (0, {})}, api_version=API_VERSION_TYPED_FFI, "
       "backend_config={a = 1 : i32}",
       nullptr},
      {"%p = f32[2] parameter(0)\n ROOT %r = f32[2] custom-call(%p), custom_call_target=\"t\", "
       "backend_config=\"bytes\\000\"",
       nullptr},
      {"%t = token[] after-all()\n ROOT %r = ((f32[2]), token[]) infeed(%t), infeed_config=\"c\"", nullptr},
      {"%p = f32[<=4] parameter(0)\n ROOT %r = s32[] get-dimension-size(%p), dimensions={0}", nullptr},
      {"%p = f32[4] parameter(0)\n %s = (f32[4], f32[4], u32[]) copy-start(%p)\n ROOT %r = f32[4] copy-done(%s)",
       nullptr},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.body);
    const std::string root = Root(Entry(c.body));
    if (c.root != nullptr) {
      EXPECT_EQ(root, c.root);
    } else {  // as in a computation
      EXPECT_THAT(c.body, HasSubstr(root));
    }
  }
}

TEST(HloText, CalledComputations) {
  for (absl::string_view root :
       {"%r = f32[4] reduce(%p, %z), dimensions={1}, to_apply=%add",
        "%r = f32[4,8] scatter(%p, %i, %u), update_window_dims={0}, inserted_window_dims={1}, "
        "scatter_dims_to_operand_dims={1}, index_vector_dim=1, indices_are_sorted=true, to_apply=%add",
        "%r = f32[4,8] reduce-window(%p, %z), window={size=1x3 pad=0_0x1_1}, to_apply=%add",
        "%r = f32[4,8] all-reduce(%p), channel_id=3, replica_groups=[2,2]<=[2,2]T(1,0), use_global_device_ids=true, "
        "to_apply=%add",
        "%r = f32[4,8] all-reduce(%p), replica_groups={{0,1},{2,3}}, to_apply=%add",
        "%r = f32[4,8] map(%p, %p), dimensions={0,1}, to_apply=%add",
        "%r = f32[] fusion(%z, %z), kind=kLoop, calls=%add", "%r = f32[] call(%z, %z), to_apply=%add",
        "%r = f32[] custom-call(%z), custom_call_target=\"t\", called_computations={%add}",
        "%r = f32[] call(%z, %z), to_apply=%add, is_composite=true, frontend_attributes={composite.attributes={n = 1 : "
        "i64},"
        "composite.name=\"x.y\",composite.version=\"2\"}"}) {
    SCOPED_TRACE(root);
    EXPECT_EQ(
        Root(absl::StrCat(
            kAdd,
            "ENTRY %main {\n %p = f32[4,8] parameter(0)\n %z = f32[] constant(0)\n %i = s32[1,1] constant({{1}})\n "
            "%u = f32[4,1] constant({{1},{2},{3},{4}})\n ROOT ",
            root, "\n}")),
        root);
  }
}

TEST(HloText, ControlFlow) {
  const std::string text = R"(HloModule m

%cond (s: (s32[], f32[2])) -> pred[] {
  %s = (s32[], f32[2]) parameter(0)
  %n = s32[] get-tuple-element(%s), index=0
  %ten = s32[] constant(10)
  ROOT %lt = pred[] compare(%n, %ten), direction=LT
}

%body (s.1: (s32[], f32[2])) -> (s32[], f32[2]) {
  ROOT %s.1 = (s32[], f32[2]) parameter(0)
}

%yes (y: f32[2]) -> f32[2] {
  ROOT %y = f32[2] parameter(0)
}

%no (o: f32[2]) -> f32[2] {
  %o = f32[2] parameter(0)
  ROOT %neg = f32[2] negate(%o)
}

ENTRY %main (p: (s32[], f32[2]), c: pred[], k: s32[]) -> (f32[2], f32[2]) {
  %p = (s32[], f32[2]) parameter(0)
  %c = pred[] parameter(1)
  %k = s32[] parameter(2)
  %w = (s32[], f32[2]) while(%p), condition=%cond, body=%body
  %v = f32[2] get-tuple-element(%w), index=1
  %if = f32[2] conditional(%c, %v, %v), true_computation=%yes, false_computation=%no
  %case = f32[2] conditional(%k, %v, %if), branch_computations={%yes, %no}
  ROOT %t = (f32[2], f32[2]) tuple(%if, %case)
}

)";
  std::unique_ptr<Module> m = Parsed(text);
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->ToString(), text);
  ExpectRoundTrip(*m);
  // body= may precede condition=.
  std::unique_ptr<Module> swapped =
      Parsed(absl::StrReplaceAll(text, {{"condition=%cond, body=%body", "body=%body, condition=%cond"}}));
  ASSERT_NE(swapped, nullptr);
  EXPECT_EQ(swapped->Fingerprint(), m->Fingerprint());
}

TEST(HloText, WrappedAsynchronousOperations) {
  std::unique_ptr<Module> m =
      Parsed(Entry("%p = f32[2] parameter(0)\n %s = ((f32[2]), f32[2], u32[]) custom-call-start(%p), "
                   "async_execution_thread=\"host\", custom_call_target=\"t\"\n"
                   " %u = ((f32[2]), f32[2], u32[]) custom-call-update(%s)\n ROOT %d = f32[2] custom-call-done(%u)"));
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->entry()->root()->opcode(), Opcode::kAsyncDone);
  const Instruction* start = m->entry()->root()->operand(0)->operand(0);
  EXPECT_EQ(start->opcode(), Opcode::kAsyncStart);
  EXPECT_EQ(start->called(0)->root()->custom_call_target(), "t");
  EXPECT_EQ(start->attrs().GetString(AttrId::kAsyncExecutionThread), "host");
  ExpectRoundTrip(*m);
}

TEST(HloText, ManyOperandsGetIndexComments) {
  std::string body = "%p = f32[1] parameter(0)\n ROOT %t = (f32[1]";
  for (int i = 1; i < 12; ++i) body += ", f32[1]";
  body += ") tuple(%p";
  for (int i = 1; i < 12; ++i) body += ", %p";
  const std::string root = Root(Entry(body + ")"));
  EXPECT_THAT(root, HasSubstr("%p, %p, %p, %p, %p, /*index=5*/%p, %p, %p, %p, %p, /*index=10*/%p, %p)"));
}

TEST(HloText, ErrorsNameTheirPlace) {
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"", "hlo text 1:1: expected 'HloModule'"},
      {"HloModule m\n", "2:1: no ENTRY computation"},
      {"HloModule m, nonsense=3\n", "1:14: module attribute 'nonsense'"},
      {"HloModule m, num_partitions=0\n", "1:29: a count must be positive, found 0"},
      {Entry("ROOT %r = f32[2] add(%x, %x)"), "4:22: no instruction 'x' before this one"},
      {Entry("ROOT %r = f32[2] frobnicate()"), "4:18: unknown operation 'frobnicate'"},
      {Entry("%p = f32[2] parameter(0)\nROOT %r = f32[3] add(%p, %p)"), "5:6: "},
      {Entry("%p = f32[2] parameter(0)\nROOT %r = f32[2] add(%p, %p), color=red"), "5:31: attribute 'color' of add"},
      {Entry("%p = f32[2] parameter(0)\nROOT %p = f32[2] parameter(1)"), "5:6: instruction p exists already"},
      {Entry("ROOT %c = f32[2] constant({1})"), "literal of f32[2] has 1 of 2 elements in dimension 0"},
      {Entry("ROOT %c = f32[2] constant({1, 2, 3})"), "more than 2 elements"},
      {Entry("ROOT %c = s8[] constant(300)"), "'300' is no value of s8"},
      {Entry("ROOT %c = f32[1000] constant({...})"), "left out"},
      {Entry("ROOT %c = f32[1000000000] constant({1"), "in too short a text"},
      {Entry("ROOT %p = f32[2]{1} parameter(0)"), "no permutation"},
      {Entry("%p = f32[2] parameter(1)"), "lacks parameter 0"},
      {Entry("ROOT %p = f32[2] parameter(0)\nROOT %q = f32[2] parameter(1)"), "5:1: a second ROOT"},
      {Entry("ROOT %p = f32[2] parameter(0), metadata={op_name=\"x}"), "string without an end"},
      {Entry("ROOT %p = f32[2] parameter(0), sharding={nonsense}"), "sharding: unexpected 'nonsense'"},
      {Entry(""), "is empty"},
      {"HloModule m\nENTRY %e (a: f32[2]) -> f32[3] {\n ROOT %a = f32[2] parameter(0)\n}", "signature does not fit"},
      {"HloModule m, entry_computation_layout={(f32[3]{0})->f32[2]{0}}\nENTRY %e {\n ROOT %a = f32[2] parameter(0)\n}",
       "1:39: entry_computation_layout does not fit"},
      {"HloModule m\nENTRY %e {\n ROOT %a = f32[2] parameter(0)", "2:1: computation e without its '}'"},
      {absl::StrCat("HloModule m\nENTRY %e {\n ROOT %a = ", std::string(100000, '(')), "nested too deep"},
  };
  for (const auto& c : cases) {
    const absl::Status s = ParseHloModule(c.text).status();
    EXPECT_FALSE(s.ok()) << c.text.substr(0, 200);
    EXPECT_THAT(std::string(s.message()), HasSubstr(c.message)) << c.text.substr(0, 200);
  }
}

TEST(HloText, ElidedConstantsOnRequest) {
  HloParseOptions options;
  options.elided_constants_as_zeros = true;
  absl::StatusOr<std::unique_ptr<Module>> m = ParseHloModule(Entry("ROOT %c = f32[1000] constant({...})"), options);
  ASSERT_TRUE(m.ok());
  EXPECT_TRUE((*m)->entry()->root()->literal().IsAll(0));
  HloPrintOptions print;
  print.constant_limit = 10;
  EXPECT_THAT(PrintModule(**m, print), HasSubstr("constant({...})"));
}

TEST(HloText, PrintOptions) {
  std::unique_ptr<Module> m = Parsed(Entry(
      "%p = f32[2]{0} parameter(0)\n ROOT %r = f32[2]{0} add(%p, %p), metadata={op_name=\"x\"}, backend_config=\"y\""));
  HloPrintOptions o;
  o.metadata = o.layouts = o.backend_config = false;
  o.operand_shapes = true;
  EXPECT_EQ(PrintInstruction(*m->entry()->root(), o), "%r = f32[2] add(f32[2] %p, f32[2] %p)");
}

TEST(HloText, MeshGroups) {
  EXPECT_THAT(ComputeReplicaGroupsOfMesh({4, 2}, {}, {{1}})->groups,
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_THAT(ComputeReplicaGroupsOfMesh({2, 2}, {}, {{1}, {0}})->groups, ElementsAre(ElementsAre(0, 2, 1, 3)));
  EXPECT_THAT(ComputeReplicaGroupsOfMesh({8}, {}, {{0, 2, 2}})->groups,
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6), ElementsAre(5, 7)));
  EXPECT_THAT(ComputeReplicaGroupsOfMesh({4}, {3, 2, 1, 0}, {{0, 1, 2}})->groups,
              ElementsAre(ElementsAre(3, 1), ElementsAre(2, 0)));
  EXPECT_FALSE(ComputeReplicaGroupsOfMesh({4}, {}, {{0, 3, 2}}).ok());
  EXPECT_FALSE(ComputeReplicaGroupsOfMesh({4}, {}, {{1}}).ok());
  EXPECT_FALSE(ComputeReplicaGroupsOfMesh({1 << 20, 1 << 20}, {}, {}).ok());
  HloLexer lexer("mesh['a'=1,'b'=2,'c'=4], device_ids=([4,2]T(1,0)) {'b'}");
  ReplicaGroups groups = *ParseReplicaGroups(lexer);
  EXPECT_EQ(FormatReplicaGroups(groups), "mesh['a'=1,'b'=2,'c'=4], device_ids=([4,2]T(1,0)) {'b'}");
  groups.mesh.clear();
  EXPECT_EQ(FormatReplicaGroups(groups), "{{0,1},{2,3},{4,5},{6,7}}");
}

TEST(HloText, DotAlgorithmsRoundTrip) {
  for (absl::string_view name :
       {"dot_bf16_bf16_f32_x3", "dot_any_f8_any_f8_f32_fast_accum", "dot_tf32_tf32_f32", "dot_f64_f64_f64", "unset"}) {
    EXPECT_EQ(FormatDotAlgorithm(*ParseDotAlgorithm(name)), name);
  }
  EXPECT_FALSE(ParseDotAlgorithm("dot_f1").ok());
  EXPECT_THAT(Root(Entry("%p = f8e4m3fn[2,2] parameter(0)\n ROOT %r = f32[2,2] dot(%p, %p), lhs_contracting_dims={1}, "
                         "rhs_contracting_dims={0}, "
                         "algorithm=dot_any_f8_any_f8_f32")),
              HasSubstr("algorithm=dot_any_f8_any_f8_f32"));
}

TEST(HloText, Literals) {
  EXPECT_EQ(ParseLiteral(*ParseShape("f32[2,2]"), "{ {1,2}, /*i=1*/ {3,4} }")->ToString(), "{ { 1, 2 }, { 3, 4 } }");
  EXPECT_FALSE(ParseLiteral(*ParseShape("f32[2]"), "{1,2} x").ok());
  EXPECT_FALSE(ParseLiteral(Shape::Token(), "{}").ok());
  EXPECT_FALSE(ParseLiteral(Shape(), "1").ok());
}

// A number beyond 64 bits is an error if it is an integer value, and is kept if it is part of a name or a float. It
// must never become another number.
TEST(HloText, NumbersThatDoNotFitAreNotReadAsOthers) {
  for (absl::string_view window :
       {"size=2 pad=99999999999999999999_0", "size=2 pad=0_99999999999999999999", "size=99999999999999999999",
        "size=2 stride=99999999999999999999", "size=2 lhs_dilate=99999999999999999999",
        "size=2 rhs_dilate=-99999999999999999999", "size=2 rhs_reversal=99999999999999999999"}) {
    const std::string text = absl::StrCat(
        "HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
        "ENTRY e { a = f32[8] parameter(0) z = f32[] constant(0) ROOT r = f32[7] reduce-window(a, z), "
        "window={",
        window, "}, to_apply=add }");
    EXPECT_THAT(std::string(ParseHloModule(text).status().message()), HasSubstr("bad ")) << text;
  }
  const absl::string_view large = "99999999999999999999";
  std::mt19937 rng(3);
  int tried = 0;
  for (const XlaText& t : XlaTexts()) {
    std::vector<std::pair<size_t, size_t>> numbers;  // positions and lengths
    for (size_t at = 0; at < t.text.size();) {
      size_t end = at;
      while (end < t.text.size() && absl::ascii_isdigit(t.text[end])) ++end;
      // Comments are ignored, and the header of a computation repeats names and shapes of parameters.
      const absl::string_view line = absl::string_view(t.text).substr(at, t.text.find('\n', at) - at);
      const bool read = !absl::StrContains(line, ") -> ") && !absl::EndsWith(t.text.substr(0, at), "index=");
      if (end > at && read) numbers.emplace_back(at, end - at);
      at = end + 1;
    }
    std::shuffle(numbers.begin(), numbers.end(), rng);
    numbers.resize(std::min<size_t>(numbers.size(), t.text.size() < 20000 ? 60 : 5));
    for (auto [at, length] : numbers) {
      std::string text = t.text;
      text.replace(at, length, std::string(large));
      ++tried;
      absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text);
      if (!module.ok()) continue;
      const std::string printed = (*module)->ToString();
      EXPECT_TRUE(absl::StrContains(printed, large) || absl::StrContains(printed, "1e+20") ||
                  absl::StrContains(printed, "inf") || absl::StrContains(printed, "nan") ||
                  absl::StrContains(printed, "9.9999"))
          << "lost where it stood for " << t.text.substr(at, length)
          << " after: " << t.text.substr(at < 60 ? 0 : at - 60, at < 60 ? at : 60);
    }
  }
  EXPECT_GT(tried, 200);
}

// These calls are replaced by their operand, so users would otherwise read past its end.
TEST(HloText, CallsThatInformAboutAValueKeepItsShape) {
  auto error = [](absl::string_view target, absl::string_view from, absl::string_view to) {
    return std::string(
        ParseHloModule(absl::StrCat("HloModule m\nENTRY e {\n  p = ", from, " parameter(0)\n  ROOT c = ", to,
                                    " custom-call(p), custom_call_target=\"", target, "\", sharding={replicated}\n}\n"))
            .status()
            .message());
  };
  for (const absl::string_view target :
       {"Sharding", "ShardingGroup", "LayoutConstraint", "annotate_device_placement"}) {
    EXPECT_EQ(error(target, "f32[8]", "f32[8]"), "");
    for (const absl::string_view to : {"f32[80]", "f32[4]", "s8[8]", "f32[2,4]", "f32[]", "(f32[8])"})
      EXPECT_THAT(error(target, "f32[8]", to), HasSubstr("custom_call_identity")) << target << to;
  }
  for (const absl::string_view target : {"SPMDFullToShardShape", "SPMDShardToFullShape"}) {
    EXPECT_EQ(error(target, "f32[8]", "f32[4]"), "");
    for (const absl::string_view to : {"s8[8]", "f32[2,4]", "f32[]", "(f32[8])", "token[]"})
      EXPECT_THAT(error(target, "f32[8]", to), HasSubstr("custom_call_boundary")) << target << to;
  }
}

// A list of groups, and an iota that is made of the same numbers.
TEST(HloText, GroupsOfOtherFormsHaveOtherFingerprints) {
  const auto parse = [](absl::string_view groups) {
    return ParseHloModule(
        absl::StrCat("HloModule m, replica_count=80\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = "
                     "f32[] add(a, b) }\n",
                     "ENTRY e {\n  x = f32[] parameter(0)\n  ROOT r = f32[] all-reduce(x), replica_groups=", groups,
                     ", to_apply=add\n}\n"));
  };
  const auto iota = parse("[4,20]<=[8,10]T(1,0)"), list = parse("{{20,2,8,10},{1,0}}");
  ASSERT_TRUE(iota.ok() && list.ok()) << iota.status() << list.status();
  EXPECT_NE((*iota)->Fingerprint(), (*list)->Fingerprint());
}

TEST(HloText, TuplesThatDoubleAreRefused) {
  std::string text = "HloModule m\nENTRY e {\n  t0 = f32[] parameter(0)\n";
  for (int i = 1; i < 40; ++i) absl::StrAppend(&text, "  t", i, " = tuple(t", i - 1, ", t", i - 1, ")\n");
  const absl::Status status = ParseHloModule(absl::StrCat(text, "  ROOT r = tuple(t39)\n}\n")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

// Shapes need not be written, so each line may copy a tuple of many arrays.
TEST(HloText, CopiesOfLargeTuplesAreBounded) {
  std::string text =
      "HloModule m\nf { x = f32[] parameter(0) ROOT t = (f32[]) tuple(x) }\nENTRY e {\n  t0 = f32[] parameter(0)\n";
  for (int i = 1; i <= 16; ++i) absl::StrAppend(&text, "  t", i, " = tuple(t", i - 1, ", t", i - 1, ")\n");
  std::string copies, operands, branches;
  for (int i = 0; i < 100; ++i) {
    absl::StrAppend(&copies, "  c", i, " = opt-barrier(t16)\n");
    absl::StrAppend(&operands, ", t16");
    absl::StrAppend(&branches, i ? ", f" : "f");
  }
  absl::Status status = ParseHloModule(absl::StrCat(text, copies, "  ROOT r = tuple(t0)\n}\n")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("[expansion_budget]"));
  status = ParseHloModule(absl::StrCat(text, "  i = s32[] constant(0)\n  ROOT r = (f32[]) conditional(i", operands,
                                       "), branch_computations={", branches, "}\n}\n"))
               .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("[tuple_size]"));
}

TEST(HloText, CallsNestedTooDeeplyAreRefused) {
  auto chain = [](int levels) {
    std::string text = "HloModule m\nf0 { x = f32[] parameter(0) ROOT r = f32[] negate(x) }\n";
    for (int k = 1; k <= levels; ++k)
      absl::StrAppend(&text, "f", k, " { x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=f", k - 1, " }\n");
    return absl::StrCat(text, "ENTRY e { x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=f", levels, " }\n");
  };
  EXPECT_TRUE(ParseHloModule(chain(400)).ok());
  for (int levels : {600, 1500}) {
    const absl::Status s = ParseHloModule(chain(levels)).status();
    EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr("[call_depth]"));
  }
}

// No text may make the parser crash or hang, and accepted text must print and parse again.
TEST(HloText, MutatedTextsNeverCrash) {
  const std::vector<XlaText> texts = XlaTexts();
  std::mt19937 rng(12345);
  const absl::string_view alphabet = "{}()[],=%:\"-0129x*/<> \nfabs";
  int accepted = 0;
  for (int n = 0; n < 4000; ++n) {
    const XlaText& t = texts[rng() % texts.size()];
    std::string text = t.text.substr(0, 4000);
    if (text.size() < t.text.size()) text = text.substr(0, text.rfind("\n\n") + 1);
    for (int k = 0, edits = 1 + static_cast<int>(rng() % 3); k < edits && !text.empty(); ++k) {
      const size_t at = rng() % text.size();
      switch (rng() % 4) {
        case 0:
          text[at] = alphabet[rng() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1 + rng() % 8);
          break;
        case 2:
          text.insert(at, 1, alphabet[rng() % alphabet.size()]);
          break;
        default:
          text.insert(at, text.substr(rng() % text.size(), 1 + rng() % 20));
          break;
      }
    }
    absl::StatusOr<std::unique_ptr<Module>> m = ParseHloModule(text);
    if (!m.ok()) continue;
    ++accepted;
    EXPECT_TRUE(ParseHloModule((*m)->ToString()).ok()) << (*m)->ToString();
  }
  EXPECT_GT(accepted, 50);  // some mutations are harmless, so the test reaches the printer
}

}  // namespace
}  // namespace backplane
