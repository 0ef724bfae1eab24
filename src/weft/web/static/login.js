// Says why a login failed: the address names the reason.
const texts = {
  wrong: "This token is not valid. Check that it is whole and was not revoked.",
  role: "This token is for a worker. Use the token of a user.",
  expired: "This link was used already, or is older than ten minutes.",
};
const given = new URLSearchParams(location.search);
for (const [name, text] of Object.entries(texts)) {
  if (given.has(name)) {
    const problem = document.getElementById("problem");
    problem.textContent = text;
    problem.hidden = false;
  }
}
