// SPDX-License-Identifier: Apache-2.0
// The keys of a plan, in their order. `io` writes JSON, or reads and checks it:
//
//   io("symbol", symbol);                // no key if it is nullopt or null; else it is needed
//   io.optional("loads", loads);         // no key if it is 0, false or empty
//   io.unless(name, "plain_name", plain); // no key if it has this value
//   io.optional_hex("offset", offset);   // a number as "0x1a20"
//   io.word("test", test, words);        // an enumerator by its word; also word_unless()
//   io.choice("kind", kind, {…});        // an optional enumerator, by its to_string()
//   io.parts("probes", probes);          // objects that are parsed one at a time
//   io.line("values", values);           // an object that may be missing, written on one line
//   io.types("types", types);            // those to which a `const Type*` refers, by its index
//   io.type("type", member.type);        // a type that is never null; io(…): it may be
//   io.expect(is_valid, "scale", "…");   // what a reader checks
//
// Structures have a describe(), or are written by the io itself: numbers, text, addresses.
#pragma once

#include "plans/attach_plan.hpp"
#include "plans/plan_words.hpp"

#include <concepts>

namespace uprobectl::plans {

template <typename T, typename Record>
concept Described = std::same_as<std::remove_const_t<T>, Record>;

// Readers reject more loads and pieces. Formulas of debug information have a few loads.
constexpr std::size_t max_loads = 16;
constexpr std::size_t max_pieces = 64;

void describe(auto& io, Described<resolve::InlinedInto> auto& into) {
  io("function", into.function);
  io("demangled", into.demangled);
  io("source", into.source);
  io("line", into.line);
  io("approximate", into.is_approximate);
}

void describe(auto& io, Described<resolve::SourceLine> auto& source) {
  io("file", source.file);
  io("line", source.line);
  io("inlined", source.inlined);
}

void describe(auto& io, Described<insn::JumpCondition> auto& condition) {
  io.word("test", condition.test, jump_test_words);
  io("code", condition.code); // a condition, or the number of a bit
  const bool is_of_flags = condition.test == insn::JumpCondition::Test::flags;
  io.expect(condition.code <= (is_of_flags ? 15 : 63), "code",
            is_of_flags ? "expected at most 15" : "expected at most 63");
  io("register", condition.tested);
  io("size", condition.size);
  io.expect(condition.size == 1 || condition.size == 2 || condition.size == 4 ||
                condition.size == 8,
            "size", "expected 1, 2, 4 or 8");
}

void describe(auto& io, Described<insn::ReturnCode> auto& code) {
  io("raises_stack", code.raises_stack);
  io("stores", code.stores);
}

void describe(auto& io, Described<insn::JumpSource> auto& source) {
  io("memory", source.in_memory);
  io("base", source.base);
  io("index", source.index);
  io("scale", source.scale);
  io("displacement", source.displacement);
  io.expect(source.scale == 1 || source.scale == 2 || source.scale == 4 || source.scale == 8,
            "scale", "expected 1, 2, 4 or 8");
}

void describe(auto& io, Described<PlannedExits::TailCall> auto& call) {
  io("address", call.address);
  io.object_if(call.condition.test != insn::JumpCondition::Test::always, "condition",
               call.condition);
  io("returns", call.returns);
  io("source", call.source);
}

void describe(auto& io, Described<elf::AddressRange> auto& range) {
  io("address", range.address);
  io("size", range.size);
}

void describe(auto& io, Described<PlannedExits> auto& exits) {
  io("returns", exits.returns);
  io("tail_calls", exits.tail_calls);
  io("code", exits.code);
}

// ---- values

void describe(auto& io, Described<dwarf::Piece> auto& piece) {
  auto& formula = piece.formula;
  io.word("kind", piece.kind, piece_words);
  io.word_unless(dwarf::Formula::Base::zero, "base", formula.base, base_words);
  io.optional("register", formula.machine_register);
  io.optional("loads", formula.loads);
  io.optional("addend", formula.addend);
  io.optional("bit_offset", formula.bit_offset);
  io.optional("bit_count", formula.bit_count);
  io.optional("size", piece.size);
  io.optional("problem", piece.problem);
  io.expect(formula.loads.size() <= max_loads, "loads", "expected fewer loads");
  io.expect(formula.bit_offset < 64, "bit_offset", "expected at most 63");
  io.expect(formula.bit_count <= 64 - formula.bit_offset, "bit_count",
            "expected bits of a number of 64");
}

void describe(auto& io, Described<dwarf::Location> auto& location) {
  using Reason = dwarf::Location::Reason;
  io.optional("pieces", location.pieces);
  io.optional("problem", location.problem);
  bool is_not_set_up = location.reason == Reason::not_set_up;
  io.optional("not_set_up", is_not_set_up);
  io.set(location.reason, is_not_set_up ? Reason::not_set_up : Reason::other);
  io("length", location.length);
  io.optional("length_size", location.length_size);
  io.expect(location.pieces.size() <= max_pieces, "pieces", "expected fewer pieces");
  io.expect(location.length_size <= 8, "length_size", "expected at most 8");
}

void describe(auto& io, Described<dwarf::Variable> auto& variable) {
  io.optional("name", variable.name);
  io.type("type", variable.type);
  io("location", variable.location);
  io.optional("parameter", variable.is_parameter);
  io.optional("artificial", variable.is_artificial);
  io.optional("inlined_function", variable.inlined_function);
  io.optional("of_probed_call", variable.of_probed_call);
}

void describe(auto& io, Described<PlannedGlobal> auto& global) {
  io("name", global.name);
  io("variable", global.variable);
}

void describe(auto& io, Described<PlannedPrologue::Parameter> auto& parameter) {
  io("location", parameter.location);
  io.optional("location_list", parameter.has_location_list);
}

void describe(auto& io, Described<PlannedPrologue> auto& prologue) {
  io("size", prologue.size);
  io("code_size", prologue.code_size);
  io("parameters", prologue.parameters);
}

void describe(auto& io, Described<PlannedValues> auto& values) {
  auto& function = values.function;
  io("name", function.name);
  io("entry", function.entry);
  io("variables", function.variables);
  io.optional("variadic", function.is_variadic);
  io.type("result", function.result);
  io.optional("unknown_result", function.has_unknown_result);
  io.optional("result_location", function.result_location);
  io("result_address", function.result_address);
  io.optional("replaced", function.is_replaced);
  io.optional("globals", values.globals);
  io("prologue", values.prologue);
  io.expect(!values.prologue || values.prologue->parameters.size() == function.variables.size(),
            "prologue", "expected as many parameters as variables");
  io.expect(!function.result_address || !function.result_address->pieces.empty(), "result_address",
            "expected pieces");
}

// ---- types

void describe(auto& io, Described<dwarf::BitRange> auto& bits) {
  io("offset", bits.offset);
  io("size", bits.size);
  io.expect(bits.offset < 8, "offset", "expected at most 7");
  io.expect(bits.size >= 1 && bits.size <= 64, "size", "expected 1 to 64");
}

void describe(auto& io, Described<dwarf::Member> auto& member) {
  io.optional("name", member.name);
  io.type("type", member.type);
  io.optional("offset", member.offset);
  io("bits", member.bits);
  io.optional("base", member.is_base);
  io.optional("selected_by", member.selected_by);
}

void describe(auto& io, Described<dwarf::Enumerator> auto& enumerator) {
  io("name", enumerator.name);
  io("value", enumerator.value);
}

void describe(auto& io, Described<dwarf::TemplateArgument> auto& argument) {
  io.type("type", argument.type);
  io("value", argument.value);
}

void describe(auto& io, Described<dwarf::VirtualBase> auto& base) {
  io.type("type", base.type);
  io("position", base.position);
  io("vtable_offset", base.vtable_offset);
}

void describe(auto& io, Described<dwarf::ArrayDescriptor::Dimension> auto& dimension) {
  io("added", dimension.added);
  io("subtracted", dimension.subtracted);
  io("constant", dimension.constant);
  io("distance", dimension.distance);
  io.expect(dimension.distance.size() <= 2, "distance", "expected at most 2");
}

void describe(auto& io, Described<dwarf::ArrayDescriptor> auto& descriptor) {
  io("data", descriptor.data);
  io("dimensions", descriptor.dimensions);
  io.expect(descriptor.dimensions.size() == 1 || descriptor.dimensions.size() == 2, "dimensions",
            "expected 1 or 2");
}

void describe(auto& io, Described<dwarf::TypeDescription> auto& type) {
  using enum dwarf::TypeKind;
  io.word("kind", type.kind, type_kind_words);
  io("name", type.name);
  io.unless(type.name, "plain_name", type.plain_name);
  io.optional("size", type.size);
  io.optional("bits", type.bits);
  io.optional("signed", type.is_signed);
  io.optional("byte_swapped", type.is_byte_swapped);
  io.optional("scoped", type.is_scoped_enumeration);
  io.optional("declared", type.is_declared);
  io.optional("problem", type.problem);
  io("target", type.target);
  io.optional("elements", type.element_count);
  io.optional("dimensions", type.dimensions);
  io("row", type.row);
  io.optional("members", type.members);
  io.optional("enumerators", type.enumerators);
  io("discriminant", type.discriminant);
  io.optional("virtual_bases", type.virtual_bases);
  io("descriptor", type.descriptor);
  io.optional("without_data", type.without_data);
  io.optional("template_arguments", type.template_arguments);
  const bool has_target = type.kind == pointer || type.kind == reference || type.kind == array;
  io.expect(!has_target || type.target != nullptr, "target", "expected a type");
}

// ---- the plan

// The first keys of a plan, and of the error that is sent instead of one.
void describe_format(auto& io, auto& format) { io("format", format); }
void describe_version(auto& io, auto& version) { io("version", version); }

// The error that is sent instead of a plan.
void describe(auto& io, Described<Error> auto& error) {
  io("message", error.message);
  io("hints", error.hints);
}

void describe(auto& io, Described<PlannedProbe> auto& probe) {
  using enum symbols::SymbolKind;
  using elf::Table;
  auto& named = probe.named;
  io("function", named.request);
  io("address", named.address);
  io("symbol", named.symbol);
  io.optional_hex("symbol_offset", named.symbol_offset);
  io("demangled", named.demangled);
  io("version", named.version);
  io("default_version", named.default_version);
  io("size", named.size);
  io.choice("kind", named.kind, {function, ifunc, label, object, plt});
  io.choice("table", named.table,
            {Table::dynsym, Table::symtab, Table::gnu_debugdata, Table::debug_file, Table::plt});
  io("inlined_into", named.inlined_into);
  io("source", named.source);
  io("exits", probe.exits);
  io.line("values", probe.values);
  io.expect(named.symbol || (named.symbol_offset == 0 && !named.demangled && !named.version &&
                             !named.inlined_into && !probe.exits),
            "symbol", "expected text");
}

void describe(auto& io, Described<PlannedFile> auto& file) {
  auto& build = file.build;
  io("target", file.target);
  io("machine", build.machine);
  io("build_id", build.build_id);
  io("size", build.size);
  io("sha256", build.sha256);
  io.expect(build.build_id ? !build.size && !build.sha256 : build.size && build.sha256, "build_id",
            "expected a build_id, or size and sha256");
  io.word_unless(resolve::StringLayout::unknown, "strings", file.strings, string_layout_words);
  io.types("types", file.types);
  io.parts("probes", file.probes);
}

void describe(auto& io, Described<AttachPlan> auto& plan) {
  io("program", plan.program);
  io("target", plan.target);
  io("functions", plan.functions);
  io.expect(!plan.functions.empty(), "functions", "expected at least one");
  io("options", plan.options);
  io("files", plan.files);
}

} // namespace uprobectl::plans
