//! Tools, prompts and resources as methods of one type, with `#[offer]`. Clients can read the recipes that
//! other clients have written.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thruway_mcp_sdk::{McpServer, offer, prompt, resource, tool};
use thruway_server::{Router, Server, ServerError};

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Recipe {
    title: String,
    ingredients: Vec<String>,
}

#[derive(Default)]
struct Recipes {
    recipes: Mutex<BTreeMap<u32, Recipe>>,
}

#[offer]
impl Recipes {
    /// Writes a recipe, and returns its number.
    #[tool(destructive = false)]
    fn write(
        &self,
        /// The title of the recipe.
        title: String,
        /// The ingredients, each with its amount.
        ingredients: Vec<String>,
    ) -> u32 {
        let mut recipes = self.recipes.lock().unwrap_or_else(PoisonError::into_inner);
        let number = recipes.last_key_value().map_or(1, |(number, _)| number + 1);
        recipes.insert(number, Recipe { title, ingredients });
        number
    }

    /// A recipe.
    #[resource("recipe://{number}", mime_type = "application/json")]
    fn recipe(&self, number: u32) -> Result<Recipe, String> {
        let recipes = self.recipes.lock().unwrap_or_else(PoisonError::into_inner);
        recipes.get(&number).cloned().ok_or_else(|| format!("there is no recipe {number}"))
    }

    /// The numbers and titles of all recipes.
    #[resource("recipes://all", title = "All recipes", mime_type = "application/json")]
    fn titles(&self) -> BTreeMap<u32, String> {
        let recipes = self.recipes.lock().unwrap_or_else(PoisonError::into_inner);
        recipes.iter().map(|(number, recipe)| (*number, recipe.title.clone())).collect()
    }

    /// Plans a dinner.
    #[prompt(title = "Plan a dinner")]
    fn dinner(
        &self,
        /// The number of guests.
        guests: u8,
        /// The number of the main dish. Default: the model selects a recipe
        main_dish: Option<u32>,
    ) -> Result<String, String> {
        let dish = match main_dish {
            Some(number) => self.recipe(number)?.title,
            None => "one of my recipes".to_owned(),
        };
        Ok(format!("Plan a dinner for {guests} guests. The main dish is {dish}."))
    }
}

pub(crate) fn server() -> McpServer {
    McpServer::new("recipes", "1.0.0").with(Recipes::default())
}

fn main() -> Result<(), ServerError> {
    Server::new(Router::new().any("/mcp", server().endpoint())).listen("127.0.0.1:8080")?.run()
}
