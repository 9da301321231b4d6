#include "core/import/proto/hlo_proto.h"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/import/compile_options.h"
#include "core/import/proto/compile_options.messages.h"
#include "core/import/proto/hlo.messages.h"
#include "core/ir/builder.h"
#include "core/text/hlo_parser.h"
#include "core/text/hlo_printer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kTexts = BACKPLANE_SOURCE_DIR "/core/text/testdata/";
const std::string kProtos = BACKPLANE_SOURCE_DIR "/core/import/proto/testdata/";

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  std::stringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

std::vector<std::string> Names(const std::string& folder, const std::string& extension) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() == extension) names.push_back(file.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::unique_ptr<Module> FromText(absl::string_view text) {
  absl::StatusOr<std::unique_ptr<Module>> m = ParseHloModule(text);
  EXPECT_TRUE(m.ok()) << m.status();
  return m.ok() ? *std::move(m) : nullptr;
}

void ExpectRoundTrip(const Module& m) {
  const std::string bytes = *SerializeHloModule(m);
  absl::StatusOr<std::unique_ptr<Module>> back = ParseHloModuleProto(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ((*back)->ToString(), m.ToString());
  EXPECT_EQ((*back)->Fingerprint(), m.Fingerprint());
  EXPECT_EQ(*SerializeHloModule(**back), bytes);
}

TEST(HloProto, EveryTextRoundTrips) {
  for (const std::string& name : Names(kTexts, ".hlo")) {
    SCOPED_TRACE(name);
    ExpectRoundTrip(*FromText(ReadFile(kTexts + name + ".hlo")));
  }
}

std::string SortedLines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  std::sort(lines.begin(), lines.end());
  return absl::StrJoin(lines, "\n");
}

// XLA's bytes for a text are read as the text is; only the order of instructions, which is free, may differ.
TEST(HloProto, ReadsWhatXlaSerializes) {
  int count = 0;
  for (const std::string& name : Names(kProtos, ".pb")) {
    if (name == "compile_options") continue;
    SCOPED_TRACE(name);
    ++count;
    absl::StatusOr<std::unique_ptr<Module>> m = ParseHloModuleProto(ReadFile(kProtos + name + ".pb"));
    ASSERT_TRUE(m.ok()) << m.status();
    std::unique_ptr<Module> text = FromText(ReadFile(kTexts + name + ".hlo"));
    text->config().num_partitions = 1;  // the published message has no field for it
    HloPrintOptions plain;
    plain.annotations = false;  // the published message has no fields for the header's flags either
    EXPECT_EQ(SortedLines(PrintModule(**m, plain)), SortedLines(PrintModule(*text, plain)));
    ExpectRoundTrip(**m);
  }
  EXPECT_EQ(count, 32);
}

std::string Rich() {
  return R"(HloModule m, input_output_alias={ {}: (1, {}, must-alias) }, buffer_donor={ (0, {}) }, replica_count=2, num_partitions=4, frontend_attributes={k="v",backplane.use_spmd_partitioning="true",backplane.use_shardy_partitioner="true",backplane.parameter_memory_kinds=",pinned_host"}

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

%f (a: f32[2,3]) -> f32[2,3] {
  ROOT %a = f32[2,3] parameter(0)
}

ENTRY %main {
  %p = f32[2,3] parameter(0)
  %q = f32[2,3]{0,1:T(2,128)S(5)} parameter(1)
  %s = f32[2,3] sine(%p), result_accuracy={mode=highest}, metadata={op_type="t" op_name="n" source_file="f" source_line=7}
  %t = f32[2,3] tanh(%s), result_accuracy={tolerance={atol=0.25, rtol=0, ulps=2}}, control-predecessors={%q}, sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  %c = f32[2,3] call(%t), is_composite=true, to_apply=%f, frontend_attributes={composite.name="x.y",composite.version="3",own="1"}
  %g = f32[2,3] all-reduce(%c), replica_groups={}, use_global_device_ids=false, to_apply=%add
  %k = f6e2m3fn[3]{0} constant({1, -0.5, 7.5})
  %n = (s4[2], c64[1], (pred[2])) constant(( {-8, 7}, {(1, -2)}, ( {1, 0} ) ))
  ROOT %r = f32[2,3] custom-call(%g), custom_call_target="t", custom_call_has_side_effect=false, api_version=API_VERSION_ORIGINAL, backend_config="a\000b"
}
)";
}

TEST(HloProto, TellsLayoutsThatWereAskedForFromOthers) {
  for (const bool parameters : {false, true}) {
    for (const bool result : {false, true}) {
      std::unique_ptr<Module> m = FromText("HloModule m\nENTRY e {\n ROOT p = f32[2,3] parameter(0)\n}\n");
      ASSERT_NE(m, nullptr);
      Shape asked = m->entry()->root()->shape();
      asked.set_row_major();
      if (parameters) m->config().parameter_layouts = {asked};
      if (result) m->config().result_layout = asked;
      std::unique_ptr<Module> back = *ParseHloModuleProto(*SerializeHloModule(*m));
      EXPECT_EQ(back->config().parameter_layouts.size(), parameters ? 1u : 0u);
      EXPECT_EQ(back->config().result_layout.element_type() != PrimitiveType::kInvalid, result);
    }
  }
}

TEST(HloProto, CarriesEverythingOfARichProgram) {
  std::unique_ptr<Module> m = FromText(Rich());
  ASSERT_NE(m, nullptr);
  ExpectRoundTrip(*m);
  std::unique_ptr<Module> back = *ParseHloModuleProto(*SerializeHloModule(*m));
  EXPECT_EQ(back->config().num_partitions, 4);
  EXPECT_TRUE(back->config().use_shardy_partitioner);
  EXPECT_THAT(back->config().parameter_memory_kinds, ElementsAre("", "pinned_host"));
  EXPECT_TRUE(back->config().input_output_aliases[0].must_alias);
  EXPECT_FALSE(back->entry()->parameter(0)->shape().has_layout());
  EXPECT_EQ(back->entry()->parameter(1)->shape().ToString(true), "f32[2,3]{0,1:T(2,128)S(5)}");
  EXPECT_EQ(back->entry()->root()->attrs().GetString(AttrId::kOpaque), std::string("a\0b", 3));
}

TEST(HloProto, WithConfig) {
  std::unique_ptr<Module> m = FromText(Rich());
  proto::HloModuleProtoWithConfig message;
  ASSERT_TRUE(message.ParseFromString(*SerializeHloModuleWithConfig(*m)));
  EXPECT_EQ(message.config().replica_count(), 2);
  message.mutable_hlo_module()->clear_config();  // as another writer would leave it
  message.mutable_config()->set_num_partitions(8);
  std::unique_ptr<Module> back = *ParseHloModuleProtoWithConfig(message.SerializeAsString());
  EXPECT_EQ(back->config().num_replicas, 2);
  EXPECT_EQ(back->config().num_partitions, 8);
  EXPECT_TRUE(back->config().use_spmd_partitioning);
  EXPECT_EQ(back->config().parameter_layouts.size(), 2u);  // a foreign program shape says what is wanted
}

// Changes one thing of a good message and expects the reader to name it.
void ExpectError(const std::function<void(proto::HloModuleProto*)>& change, const std::string& message,
                 absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  proto::HloModuleProto m;
  ASSERT_TRUE(m.ParseFromString(*SerializeHloModule(*FromText(Rich()))));
  change(&m);
  const absl::Status s = ParseHloModuleProto(m.SerializeAsString()).status();
  EXPECT_EQ(s.code(), code) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr(message));
}

TEST(HloProto, HostileMessages) {
  auto entry = [](proto::HloModuleProto* m) { return m->mutable_computations(m->computations_size() - 1); };
  ExpectError([&](auto* m) { m->set_entry_computation_id(77); }, "no entry computation");
  ExpectError([&](auto* m) { entry(m)->set_root_id(77); }, "has no root of id 77");
  ExpectError([&](auto* m) { entry(m)->clear_instructions(); }, "is empty");
  ExpectError([&](auto* m) { entry(m)->mutable_instructions(2)->set_operand_ids(0, entry(m)->instructions(3).id()); },
              "no instruction of id");
  ExpectError([&](auto* m) { entry(m)->mutable_instructions(2)->set_operand_ids(0, entry(m)->instructions(2).id()); },
              "no instruction of id");
  ExpectError([&](auto* m) { entry(m)->mutable_instructions(2)->set_id(entry(m)->instructions(1).id()); },
              "two instructions of id");
  ExpectError([&](auto* m) { entry(m)->mutable_instructions(4)->set_called_computation_ids(0, entry(m)->id()); },
              "no computation of id");
  ExpectError([&](auto* m) { m->mutable_computations(1)->set_id(m->computations(0).id()); }, "two computations of id");
  ExpectError([&](auto* m) { entry(m)->mutable_instructions(2)->set_opcode("frobnicate"); },
              "unknown operation 'frobnicate'", absl::StatusCode::kUnimplemented);
  ExpectError([&](auto* m) { entry(m)->mutable_instructions(2)->mutable_shape()->set_dimensions(0, 5); }, "");
  ExpectError([&](auto* m) { entry(m)->mutable_instructions(2)->mutable_shape()->set_dimensions(0, -5); },
              "negative size");
  ExpectError([&](auto* m) { entry(m)->mutable_instructions(2)->mutable_shape()->set_element_type(99); },
              "unknown element type 99");
  ExpectError([&](auto* m) { entry(m)->mutable_instructions(0)->set_parameter_number(int64_t{1} << 40); }, "");
  ExpectError([&](auto* m) { entry(m)->mutable_instructions(0)->set_parameter_number(-1); }, "");
  ExpectError([&](auto* m) { entry(m)->mutable_instructions(6)->mutable_literal()->mutable_f6s()->push_back('x'); },
              "with 4 bytes");
  ExpectError(
      [&](auto* m) {
        auto* k = entry(m)->mutable_instructions(6);
        k->mutable_shape()->set_dimensions(0, int64_t{1} << 50);
      },
      "with 3 bytes");
  ExpectError(
      [&](auto* m) { entry(m)->mutable_instructions(7)->mutable_literal()->mutable_tuple_literals()->RemoveLast(); },
      "with 2 elements");
  ExpectError(
      [&](auto* m) { entry(m)->mutable_instructions(3)->mutable_sharding()->add_tile_assignment_dimensions(1 << 30); },
      "sharding");
  ExpectError([&](auto* m) { entry(m)->mutable_instructions(3)->mutable_sharding()->set_type(42); },
              "unknown sharding type");
  ExpectError(
      [&](auto* m) {
        auto* named = entry(m)->mutable_instructions(3)->mutable_sharding()->mutable_named_sharding();
        named->add_dimensions()->add_axes()->set_mesh_axis_index(7);
      },
      "no such mesh axis");
  ExpectError(
      [&](auto* m) {
        auto* sharding = entry(m)->mutable_instructions(3)->mutable_sharding();
        sharding->set_is_shard_group(true);
        sharding->set_shard_group_type(9);
      },
      "unknown shard group type 9");
  ExpectError(
      [&](auto* m) {
        auto* groups = entry(m)->mutable_instructions(5)->mutable_iota_replica_groups();
        groups->set_num_replica_groups(int64_t{1} << 40);
        groups->set_num_devices_per_group(int64_t{1} << 40);
      },
      "replica groups");
  ExpectError([&](auto* m) { m->mutable_input_output_alias()->mutable_entries(0)->set_parameter_number(9); },
              "alias of parameter 9");
  ExpectError([&](auto* m) { m->mutable_buffer_donor()->mutable_entries(0)->set_parameter_number(-9); },
              "donor parameter -9");
  ExpectError([&](auto* m) { m->mutable_config()->set_num_partitions(-4); }, "a count of -4");
  ExpectError(
      [&](auto* m) {
        proto::ShapeProto* s = entry(m)->mutable_instructions(0)->mutable_shape();
        for (int i = 0; i < 80; ++i) {
          s->set_element_type(13);
          s = s->add_tuple_shapes();
        }
        s->set_element_type(11);
      },
      "");
  // Two bytes an instruction, of which each would take a kilobyte.
  std::string computation, module;
  for (int i = 0; i < 200000; ++i) computation += std::string("\x12\x00", 2);
  module = "\x1a\x80\xb5\x18" + computation;  // field 3 of 400000 bytes
  EXPECT_THAT(ParseHloModuleProto(module).status().message(), HasSubstr("too many nearly empty messages"));
  EXPECT_THAT(ParseHloModuleProto("\xff\xff").status().message(), HasSubstr("no HloModuleProto"));
  EXPECT_FALSE(ParseHloModuleProto("").ok());
  EXPECT_FALSE(ParseHloModuleProtoWithConfig("").ok());
}

TEST(HloProto, CutAndMutatedBytesNeverCrash) {
  std::vector<std::string> good;
  for (const std::string& name : Names(kProtos, ".pb")) {
    if (name != "compile_options") good.push_back(ReadFile(kProtos + name + ".pb"));
  }
  good.push_back(*SerializeHloModule(*FromText(Rich())));
  for (size_t n = 0; n < good.back().size(); ++n)
    (void)ParseHloModuleProto(absl::string_view(good.back()).substr(0, n));
  std::mt19937 rng(4711);
  int accepted = 0;
  for (int n = 0; n < 6000; ++n) {
    std::string bytes = good[rng() % good.size()];
    for (int k = 0, edits = 1 + static_cast<int>(rng() % 4); k < edits; ++k) {
      const size_t at = rng() % bytes.size();
      switch (rng() % 3) {
        case 0:
          bytes[at] = static_cast<char>(rng());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << (rng() % 8)));
          break;
        default:
          bytes.erase(at, 1);
          break;
      }
    }
    absl::StatusOr<std::unique_ptr<Module>> m = ParseHloModuleProto(bytes);
    if (!m.ok()) continue;
    ++accepted;
    EXPECT_TRUE(ParseHloModuleProto(*SerializeHloModule(**m)).ok());
  }
  EXPECT_GT(accepted, 100);
}

// XLA up to 2025 refuses ids above INT_MAX, and wants each once in a module.
TEST(HloProto, IdsAreSmallAndUnique) {
  proto::HloModuleProto m;
  ASSERT_TRUE(m.ParseFromString(*SerializeHloModule(*FromText(Rich()))));
  ASSERT_EQ(m.computations_size(), 3);
  std::set<int64_t> ids;
  int64_t count = 0;
  for (const auto& c : m.computations()) {
    for (const auto& i : c.instructions()) {
      EXPECT_GE(i.id(), 0);
      ids.insert(i.id());
      ++count;
    }
  }
  EXPECT_EQ(static_cast<int64_t>(ids.size()), count);
  EXPECT_LE(*ids.rbegin(), INT_MAX);
}

// Newer writers number an instruction with its computation in the upper half and name it without, or the other way.
TEST(HloProto, IdsLocalToAComputation) {
  std::unique_ptr<Module> m = FromText(Rich());
  for (const bool whole_numbers : {true, false}) {
    proto::HloModuleProto message;
    ASSERT_TRUE(message.ParseFromString(*SerializeHloModule(*m)));
    for (auto& c : *message.mutable_computations()) {
      const int64_t upper = (c.id() + 1) << 32, first = c.instructions(0).id();
      auto local = [&](int64_t id) { return id - first; };
      auto whole = [&](int64_t id) { return upper | local(id); };
      auto number = [&](int64_t id) { return whole_numbers ? whole(id) : local(id); };
      auto name = [&](int64_t id) { return whole_numbers ? local(id) : whole(id); };
      c.set_root_id(name(c.root_id()));
      for (auto& i : *c.mutable_instructions()) {
        i.set_id(number(i.id()));
        for (int k = 0; k < i.operand_ids_size(); ++k) i.set_operand_ids(k, name(i.operand_ids(k)));
        for (int k = 0; k < i.control_predecessor_ids_size(); ++k)
          i.set_control_predecessor_ids(k, name(i.control_predecessor_ids(k)));
      }
    }
    absl::StatusOr<std::unique_ptr<Module>> back = ParseHloModuleProto(message.SerializeAsString());
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ((*back)->ToString(), m->ToString());
    // The upper halves of two computations are not the same.
    if (!whole_numbers) continue;
    auto* entry = message.mutable_computations(2);
    entry->mutable_instructions(2)->set_operand_ids(0, (int64_t{77} << 32) | 1);
    EXPECT_THAT(std::string(ParseHloModuleProto(message.SerializeAsString()).status().message()),
                HasSubstr("no instruction of id"));
  }
}

// What JAX up to 0.8 and torch_xla read of a partitioned program.
TEST(HloProto, ShardingsOfAPartitionedModule) {
  std::unique_ptr<Module> m = FromText(
      R"(HloModule m, num_partitions=4, frontend_attributes={spmd_parameter_shardings="{{devices=[4]<=[4]}, {replicated}, {devices=[2,2]<=[4]}}",spmd_result_shardings="{{devices=[4]<=[4]}}"}
ENTRY e {
  a = f32[2] parameter(0)
  b = (f32[3], f32[2,2]) parameter(1)
  ROOT c = f32[2] negate(a)
}
)");
  proto::HloModuleProto message;
  ASSERT_TRUE(message.ParseFromString(*SerializeHloModule(*m)));
  ASSERT_EQ(message.spmd_parameters_shardings_size(), 2);  // one a parameter, of a tuple a tuple
  EXPECT_EQ(message.spmd_parameters_shardings(0).tile_assignment_dimensions(0), 4);
  ASSERT_EQ(message.spmd_parameters_shardings(1).tuple_shardings_size(), 2);
  EXPECT_EQ(message.spmd_parameters_shardings(1).tuple_shardings(1).tile_assignment_dimensions_size(), 2);
  EXPECT_EQ(message.spmd_output_sharding().tile_assignment_dimensions(0), 4);
  ASSERT_TRUE(message.ParseFromString(*SerializeHloModule(*FromText(Rich()))));
  EXPECT_FALSE(message.has_spmd_output_sharding());
  EXPECT_EQ(message.spmd_parameters_shardings_size(), 0);
}

// A constant's elements stand in the order of its layout.
TEST(HloProto, ConstantsInTheOrderOfTheirLayout) {
  std::unique_ptr<Module> m = FromText("HloModule m\nENTRY e {\n  ROOT a = s32[2,3] constant({{1,2,3},{4,5,6}})\n}\n");
  proto::HloModuleProto message;
  ASSERT_TRUE(message.ParseFromString(*SerializeHloModule(*m)));
  auto* literal = message.mutable_computations(0)->mutable_instructions(0)->mutable_literal();
  auto* layout = literal->mutable_shape()->mutable_layout();
  literal->mutable_shape()->set_layout_is_default(false);  // a mark of ours: the layout says nothing
  layout->set_minor_to_major(0, 0);
  layout->set_minor_to_major(1, 1);
  const int32_t columns[] = {1, 4, 2, 5, 3, 6};
  for (int i = 0; i < 6; ++i) literal->set_s32s(i, columns[i]);
  absl::StatusOr<std::unique_ptr<Module>> back = ParseHloModuleProto(message.SerializeAsString());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ((*back)->ToString(), m->ToString());
  literal->mutable_shape()->set_dimensions(0, 3);
  EXPECT_FALSE(ParseHloModuleProto(message.SerializeAsString()).ok());
  literal->mutable_shape()->set_dimensions(0, 2);
  // An order that is none is refused, and not gone by where the layout is marked as saying nothing.
  layout->set_minor_to_major(1, 1'000'000'000'000);
  EXPECT_FALSE(ParseHloModuleProto(message.SerializeAsString()).ok());
  literal->mutable_shape()->set_layout_is_default(true);
  EXPECT_TRUE(ParseHloModuleProto(message.SerializeAsString()).ok());
}

// What the IR keeps as text has the published fields.
TEST(HloProto, NotesHaveTheirFields) {
  std::unique_ptr<Module> m = FromText(R"(HloModule m, is_scheduled=true, num_partitions=8

FileNames
1 "a.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=77 end_line=78 column=3 end_column=63}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

%wrapped (w: f32[8,4]) -> f32[8,4] {
  %w = f32[8,4] parameter(0)
  %x = f32[8,4] negate(%w)
  ROOT %y = f32[8,4] sine(%x)
}, execution_thread="host"

ENTRY %main (p: (f32[8,4], f32[2])) -> f32[8,4] {
  %p = (f32[8,4], f32[2]) parameter(0), parameter_replication={true,false}, origin={({"v"}, {"w" {1,0}})}
  %g = f32[8,4] get-tuple-element(%p), index=0, sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate metadata={op_name="x"}}
  %h = f32[8,4] negate(%g), sharding={replicated shard_like 3}, statistics={visualizing_index=1,a=1,b-0=2.5}, origin={[synthetic_call]}, metadata={op_name="n" source_end_line=4 profile_type={1} deduplicated_name="d" scheduling_name="s" stack_frame_id=2}
  %i = f32[8,4] negate(%h), sharding={mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)), [{'a'}, {'b':(1)2, ?}], replicated={'b':(2)2}, metadata={{op_name="X"}}}
  %r = f32[8,4] all-reduce(%i), channel_id=1, replica_groups=mesh['a'=2,'b'=4], device_ids=(7,6,5,4,3,2,1,0) {'b':(1)2}, use_global_device_ids=true, to_apply=%add
  %t = ((f32[8,4]), f32[8,4], u32[]) async-start(%r), async_execution_thread="host", calls=%wrapped
  ROOT %d = f32[8,4] async-done(%t)
}
)");
  ASSERT_NE(m, nullptr);
  ExpectRoundTrip(*m);
  proto::HloModuleProto message;
  ASSERT_TRUE(message.ParseFromString(*SerializeHloModule(*m)));
  EXPECT_EQ(message.stack_frame_index().stack_frames(1).parent_frame_id(), 1);
  EXPECT_EQ(message.stack_frame_index().file_locations(0).end_column(), 63);
  EXPECT_EQ(message.computations(1).execution_thread(), "host");
  const proto::HloComputationProto& entry = message.computations(2);
  EXPECT_EQ(entry.instructions(0).original_value().leaves(1).array().instruction_name(), "w");
  EXPECT_EQ(entry.instructions(0).parameter_replication().replicated_at_leaf_size(), 2);
  EXPECT_EQ(entry.instructions(1).sharding().metadata(0).op_name(), "x");
  EXPECT_TRUE(entry.instructions(2).original_value().is_synthetic_call());
  EXPECT_EQ(entry.instructions(2).statistics().statistics(1).value(), 2.5);
  EXPECT_EQ(entry.instructions(2).sharding().shard_group_id(), 3);
  EXPECT_EQ(entry.instructions(2).metadata().stack_frame_id(), 2);
  EXPECT_EQ(entry.instructions(2).metadata().scheduling_name(), "s");
  EXPECT_EQ(entry.instructions(2).metadata().more(), "");
  EXPECT_EQ(entry.instructions(3).sharding().named_sharding().dimensions(1).axes(0).part().size(), 2);
  EXPECT_FALSE(entry.instructions(3).sharding().named_sharding().dimensions(1).is_closed());
  EXPECT_EQ(entry.instructions(4).mesh_replica_groups().mesh().device_ids(0), 7);
}

// ---- compile options ----

TEST(CompileOptions, ReadsWhatJaxSends) {
  const std::string bytes = ReadFile(kProtos + "compile_options.pb");
  absl::StatusOr<CompileOptions> o = ParseCompileOptions(bytes);
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->num_replicas, 2);
  EXPECT_EQ(o->num_partitions, 3);
  EXPECT_THAT(o->device_assignment, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(o->device_ordinal, -1);
  EXPECT_TRUE(o->use_spmd_partitioning);
  EXPECT_TRUE(o->use_shardy_partitioner);
  EXPECT_FALSE(o->use_auto_spmd_partitioning);
  EXPECT_TRUE(o->parameter_is_tupled_arguments);
  EXPECT_FALSE(o->compile_portable_executable);
  ASSERT_EQ(o->argument_layouts.size(), 1u);
  EXPECT_EQ(o->argument_layouts[0].ToString(true), "f32[2,3]{0,1}");
  EXPECT_EQ(o->result_layout.element_type(), PrimitiveType::kInvalid);
  EXPECT_THAT(o->allow_spmd_sharding_propagation_to_parameters, ElementsAre(false, true));
  EXPECT_THAT(o->allow_spmd_sharding_propagation_to_output, ElementsAre(true, false));
  EXPECT_EQ(o->env_option_overrides, (StringMap{{"xla_a", "x"}, {"xla_b", "true"}, {"xla_c", "7"}, {"xla_d", "1.5"}}));
  EXPECT_EQ(SerializeCompileOptions(*o), bytes);
}

TEST(CompileOptions, DefaultsAndRoundTrip) {
  const CompileOptions d = *ParseCompileOptions("");
  EXPECT_EQ(d.num_replicas, 1);
  EXPECT_EQ(d.device_ordinal, -1);
  CompileOptions o;
  o.num_replicas = 2;
  o.num_partitions = 2;
  o.device_assignment = {3, 2, 1, 0};
  o.device_ordinal = 1;
  o.compile_portable_executable = true;
  o.argument_layouts = {*ParseShape("(f32[2,3]{0,1}, s32[])"), *ParseShape("token[]")};
  o.result_layout = *ParseShape("f32[4]{0:S(5)}");
  o.allow_spmd_sharding_propagation_to_output = {true};
  o.env_option_overrides = {{"a", "1"}, {"b", std::string("x\0y", 3)}};
  absl::StatusOr<CompileOptions> back = ParseCompileOptions(SerializeCompileOptions(o));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->device_assignment, o.device_assignment);
  EXPECT_EQ(back->device_ordinal, 1);
  EXPECT_TRUE(back->compile_portable_executable);
  EXPECT_EQ(back->argument_layouts[0].ToString(true), "(f32[2,3]{0,1}, s32[])");
  EXPECT_EQ(back->argument_layouts[1].ToString(true), "token[]");
  EXPECT_EQ(back->result_layout.ToString(true), "f32[4]{0:S(5)}");
  EXPECT_EQ(back->env_option_overrides, o.env_option_overrides);
}

TEST(CompileOptions, Errors) {
  auto error = [](const std::function<void(proto::CompileOptionsProto*)>& change) {
    proto::CompileOptionsProto m;
    EXPECT_TRUE(m.ParseFromString(ReadFile(kProtos + "compile_options.pb")));
    change(&m);
    return std::string(ParseCompileOptions(m.SerializeAsString()).status().message());
  };
  EXPECT_THAT(std::string(ParseCompileOptions("\xff").status().message()), HasSubstr("no CompileOptionsProto"));
  EXPECT_THAT(error([](auto* m) { m->mutable_executable_build_options()->set_num_replicas(-1); }),
              HasSubstr("the number of replicas is -1"));
  EXPECT_THAT(error([](auto* m) { m->mutable_executable_build_options()->set_num_partitions(int64_t{1} << 40); }),
              HasSubstr("the number of partitions"));
  EXPECT_THAT(error([](auto* m) { m->mutable_executable_build_options()->set_num_partitions(2); }),
              HasSubstr("2x3 devices, 2x2 are asked for"));
  EXPECT_THAT(
      error([](auto* m) {
        m->mutable_executable_build_options()->mutable_device_assignment()->mutable_computation_devices()->RemoveLast();
      }),
      HasSubstr("lacks partitions"));
  EXPECT_THAT(error([](auto* m) {
                m->mutable_executable_build_options()
                    ->mutable_device_assignment()
                    ->mutable_computation_devices(0)
                    ->set_replica_device_ids(0, -3);
              }),
              HasSubstr("device id -3"));
  EXPECT_THAT(error([](auto* m) { m->mutable_argument_layouts(0)->set_element_type(99); }), HasSubstr("argument 0: "));
}

TEST(HloProto, CallsNestedTooDeeplyAreRefused) {
  for (int levels : {400, 600, 1500}) {
    Module module("deep");
    Computation* callee = nullptr;
    for (int k = 0; k <= levels; ++k) {
      Builder b(&module, absl::StrCat("f", k));
      Value x = *b.Parameter(0, Shape::Scalar(PrimitiveType::kF32));
      callee = *b.Build(callee == nullptr ? *b.Unary(Opcode::kNegate, x) : *b.Call(callee, {x}));
    }
    module.set_entry(callee);
    const absl::Status s = ParseHloModuleProto(*SerializeHloModule(module)).status();
    EXPECT_EQ(s.code(), levels < 500 ? absl::StatusCode::kOk : absl::StatusCode::kResourceExhausted) << s;
  }
}

TEST(CompileOptions, MutatedBytesNeverCrash) {
  const std::string good = ReadFile(kProtos + "compile_options.pb");
  for (size_t n = 0; n < good.size(); ++n) (void)ParseCompileOptions(absl::string_view(good).substr(0, n));
  std::mt19937 rng(99);
  for (int n = 0; n < 5000; ++n) {
    std::string bytes = good;
    for (int k = 0; k < 3; ++k) bytes[rng() % bytes.size()] = static_cast<char>(rng());
    absl::StatusOr<CompileOptions> o = ParseCompileOptions(bytes);
    if (!o.ok()) continue;
    EXPECT_EQ(SerializeCompileOptions(*o), bytes);
  }
}

}  // namespace
}  // namespace backplane
