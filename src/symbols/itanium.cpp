#include "symbols/itanium.hpp"

#include "symbols/node_arena.hpp"

#include <utility>

namespace uprobectl {

namespace {

using namespace llvm::itanium_demangle;

// Nodes for each character of a name, generously, bytes.
std::size_t usual_memory(std::string_view raw) {
  constexpr std::size_t for_a_character = 64;
  return raw.size() > longest_usual_name ? 0 : raw.size() * for_a_character;
}

// What the time costs that a character of a long name takes, even of one that is given up.
constexpr std::size_t time_of_a_character = 4;

// Nested pointers, function types and template arguments up to this limit were demangled on a stack
// of 256 KiB (g++ 12, optimized), not on one of 192.
constexpr unsigned deepest_recursion = 1024;

// LLVM's parser, with every production that can contain itself counted. All its recursion goes
// through getDerived(), so these overrides see each level. Once the name is given up each of them
// fails, as at a syntax error, and so does everything around it.
class BoundedParser : public AbstractManglingParser<BoundedParser, NodeArena> {
  using Base = AbstractManglingParser<BoundedParser, NodeArena>;

public:
  using Base::Base;

  bool has_given_up() const { return ASTAllocator.has_given_up(); }
  NodeArena& arena() { return ASTAllocator; }

  Node* parseName(NameState* state = nullptr) {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseName(state);
  }
  Node* parseEncoding(bool parse_parameters = true) {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseEncoding(parse_parameters);
  }
  Node* parseType() {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseType();
  }
  Node* parseQualifiedType() {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseQualifiedType();
  }
  Node* parseExpr() {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseExpr();
  }
  Node* parseBracedExpr() {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseBracedExpr();
  }
  Node* parseTemplateArg() {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseTemplateArg();
  }
  Node* parseTemplateParamDecl(TemplateParamList* parameters) {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseTemplateParamDecl(parameters);
  }

private:
  class Level {
  public:
    explicit Level(BoundedParser& parser) : parser_(parser) {
      if (++parser_.depth_ > deepest_recursion) parser_.ASTAllocator.give_up();
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

  private:
    BoundedParser& parser_;
  };

  unsigned depth_ = 0;
};

// Calls visit with the parsed name, and gives nothing if there is none.
template <typename Visit>
auto with_parsed(std::string_view raw, const Visit& visit)
    -> std::optional<decltype(visit(std::declval<const Node&>()))> {
  if (!raw.starts_with("_Z") || raw.size() > longest_mangled_name) return std::nullopt;
  DemanglingBudget& budget = DemanglingBudget::of_this_thread();
  if (raw.size() > longest_usual_name && budget.left() == 0) return std::nullopt;
  BoundedParser parser(raw.data(), raw.data() + raw.size());
  parser.arena().limit_extra_memory(budget.left() + usual_memory(raw));
  const Node* root = parser.parse();
  budget.charge(raw, parser.arena().extra_memory());
  if (root == nullptr || parser.has_given_up()) return std::nullopt;
  return visit(*root);
}

template <typename Text>
std::string_view print(const Node& node, Text& text) {
  OutputBuffer buffer(text.bytes.release(), text.capacity);
  node.print(buffer);
  text.bytes.reset(buffer.getBuffer());
  text.capacity = buffer.getBufferCapacity();
  return std::string_view(buffer);
}

} // namespace

DemanglingBudget& DemanglingBudget::of_this_thread() {
  thread_local DemanglingBudget budget;
  return budget;
}

void DemanglingBudget::charge(std::string_view raw, std::size_t cost) {
  if (raw.size() > longest_usual_name) cost += raw.size() * time_of_a_character;
  const std::size_t usual = usual_memory(raw);
  left_ -= std::min(left_, cost > usual ? cost - usual : 0);
}

std::optional<std::string_view> ItaniumDemangler::whole(std::string_view raw) {
  return with_parsed(raw, [&](const Node& root) {
    const std::string_view text = print(root, text_);
    DemanglingBudget::of_this_thread().charge(raw, text.size());
    return text;
  });
}

std::optional<DemangledName> ItaniumDemangler::parts(std::string_view raw) {
  return with_parsed(raw, [&](const Node& root) {
    DemangledName result{std::string(print(root, text_)), {}};
    // Of clones such as "f() (.cold)" the root is no encoding: they have no name of their own.
    if (root.getKind() == Node::KFunctionEncoding)
      result.name = print(*static_cast<const FunctionEncoding&>(root).getName(), text_);
    return result;
  });
}

} // namespace uprobectl
