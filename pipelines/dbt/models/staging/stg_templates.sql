{{ config(enabled='templates' in var('letters_parts')) }}

select
    templates.id as template_id,
    templates.title,
    templates.template_type,
    creators.id as creator_id,
    creators.full_name as creator,
    products.id as product_id,
    products.name as product,
    products.product_type,
    products.paper_size,
    products.postage_type
from {{ source('letters', 'templates') }} as templates
left join {{ source('letters', 'templates__creator') }} as creators on creators.template_id = templates.id
left join {{ source('letters', 'templates__product') }} as products on products.template_id = templates.id
